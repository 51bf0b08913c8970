import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { lists } from "@/api/lists";
import { useSession } from "@/api/session";
import { Select } from "@/ui/field";
import { ListLimit } from "./list-limit";

interface AgentSelectProps {
  ids: { id: string };
  value: string;
  onChange: (agent: string) => void;
  /** The name of no agent. Without it an agent must be chosen. */
  none?: string;
}

/** A choice of one of the agents of the workspace. A chosen agent that is gone stays visible. */
export function AgentSelect({ ids, value, onChange, none }: AgentSelectProps): ReactNode {
  const { may } = useSession();
  const agents = useQuery({ ...lists.agents, enabled: may("agents.read") });
  const names = agents.data?.items.map((agent) => agent.agent_id) ?? [];
  const isGone = value !== "" && !names.includes(value);
  return (
    <>
      <Select {...ids} value={value} onChange={(event) => onChange(event.target.value)}>
        {none === undefined ? <option value="" disabled /> : <option value="">{none}</option>}
        {isGone ? <option value={value}>{value}</option> : null}
        {names.map((name) => <option key={name} value={name}>{name}</option>)}
      </Select>
      <ListLimit lists={[agents.data]} />
    </>
  );
}
