/** Ids of other resources that the fields of a form may name, as far as the person may see them. */
import { useQuery } from "@tanstack/react-query";
import { ask } from "@/api/request";
import { useSession } from "@/api/session";
import { text } from "@/i18n/text";
import { described, type SavedKind } from "@/parts/saved-resource/described";
import type { Fields } from "@/parts/schema-form/schema";
import type { KindName } from "./kinds";

const NAMED: Partial<Record<KindName, Readonly<Record<string, "agents" | "bots" | "users">>>> = {
  bots: { agent_id: "agents" },
  channels: { bot: "bots", agents: "agents" },
  subscriptions: { agents: "agents" },
  actors: { user_id: "users" },
};

export function useChoices(kind: KindName): Readonly<Record<string, readonly string[]>> {
  const fields = NAMED[kind] ?? {};
  const asked = Object.values(fields);
  const ids = { agents: useIds("agents", asked.includes("agents")), bots: useIds("bots", asked.includes("bots")), users: useIds("users", asked.includes("users")) };
  return Object.fromEntries(Object.entries(fields).flatMap(([field, named]) => (ids[named] === undefined ? [] : [[field, ids[named]]])));
}

function useIds(kind: SavedKind & ("agents" | "bots" | "users"), wanted: boolean): string[] | undefined {
  const { may } = useSession();
  const { path, id, list } = described(kind);
  const query = useQuery({ queryKey: [kind, "ids"], queryFn: () => ask<{ items: Fields[] }>("GET", path, { query: { limit: 100 } }), enabled: wanted && (list.right === null || may(list.right)) });
  return query.data?.items.map((each) => text(each[id]));
}
