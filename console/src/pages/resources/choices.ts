/** Ids of other resources that the fields of a form may name, as far as the person may see them. */
import { useQuery } from "@tanstack/react-query";
import { lists, type Listing } from "@/api/lists";
import { useSession } from "@/api/session";
import { described } from "@/parts/saved-resource/described";
import type { KindName } from "./kinds";

type Named = "agents" | "bots" | "users";

const NAMED: Partial<Record<KindName, Readonly<Record<string, Named>>>> = {
  bots: { agent_id: "agents" },
  channels: { bot: "bots", agents: "agents" },
  subscriptions: { agents: "agents" },
  actors: { user_id: "users" },
};

interface Choices {
  /** The ids, by field. */
  ids: Readonly<Record<string, readonly string[]>>;
  found: readonly (Listing<unknown> | undefined)[];
}

export function useChoices(kind: KindName): Choices {
  const { may } = useSession();
  const fields = NAMED[kind] ?? {};
  const asks = (named: Named): { enabled: boolean } => {
    const { right } = described(named).list;
    return { enabled: Object.values(fields).includes(named) && (right === null || may(right)) };
  };
  const agents = useQuery({ ...lists.agents, ...asks("agents") }).data;
  const bots = useQuery({ ...lists.bots, ...asks("bots") }).data;
  const users = useQuery({ ...lists.users, ...asks("users") }).data;
  const ids = { agents: agents?.items.map((each) => each.agent_id), bots: bots?.items.map((each) => each.bot_id), users: users?.items.map((each) => each.user_id) };
  return { ids: Object.fromEntries(Object.entries(fields).flatMap(([field, named]) => (ids[named] === undefined ? [] : [[field, ids[named]]]))), found: [agents, bots, users] };
}
