/** The agents that a person can talk to, and the one that is chosen without being named. */
import type { ListAgentsResponse } from "@bollard/client";
import { useQuery } from "@tanstack/react-query";
import { lists } from "@/api/lists";
import { useSession } from "@/api/session";
import { useLanguage, type Language } from "@/i18n/i18n";

export type ListedAgent = ListAgentsResponse["items"][number];

export function agentName(agent: ListedAgent | undefined, id: string, language: Language): string {
  const label: Record<string, string> = agent?.label ?? {};
  return label[language === "zh" ? "zh_Hans" : "en_US"] ?? label.en_US ?? id;
}

/** The agent that was named; otherwise `assistant` with a real model, `demo`, or the first one. */
export function chooseAgent(agents: readonly ListedAgent[], asked: string | undefined, hasModel: boolean): string | undefined {
  if (asked !== undefined) return asked;
  const known = agents.filter((agent) => agent.available && agent.enabled).map((agent) => agent.agent_id);
  if (hasModel && known.includes("assistant")) return "assistant";
  return known.includes("demo") ? "demo" : known[0];
}

export interface Agents {
  agents: readonly ListedAgent[];
  isLoading: boolean;
  error: Error | null;
  refetch: () => void;
  /** Whether the workspace has a model other than the built-in one; true if the person may not see models. */
  hasModel: boolean;
  name: (id: string) => string;
  find: (id: string) => ListedAgent | undefined;
}

export function useAgents(): Agents {
  const { may } = useSession();
  const { language } = useLanguage();
  const query = useQuery({ ...lists.agents, enabled: may("agents.read") });
  const models = useQuery({ ...lists.models, enabled: may("models.read") });
  const agents = query.data?.items ?? [];
  const find = (id: string): ListedAgent | undefined => agents.find((agent) => agent.agent_id === id);
  return {
    agents,
    isLoading: query.isLoading || models.isLoading,
    error: query.error,
    refetch: () => void query.refetch(),
    hasModel: models.data === undefined || models.data.items.some((model) => model.is_default && model.model_type === "llm" && model.style !== "demo"),
    name: (id) => agentName(find(id), id, language),
    find,
  };
}
