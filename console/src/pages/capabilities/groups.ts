import type { AgentCapability, Capability } from "@bollard/client";

/** A capability of the workspace, or of an agent with what the agent gets and why. */
export type Offer = Omit<Capability, "available"> & Partial<Pick<Capability, "available">> & Partial<Pick<AgentCapability, "present" | "reasons" | "operations">>;

/** What a capability does with content. */
export const FLOW = ["reads_private", "brings_untrusted", "sends_out"] as const;
const NAMED = ["builtin", "agents", "models", "skills", "knowledge", "none"] as const;

/** The name of a source: those of the host have words, others are foreign text. */
export function sourceName(source: string, t: (key: `source.${(typeof NAMED)[number]}`) => string): string {
  const named = NAMED.find((each) => each === source);
  return named === undefined ? source : t(`source.${named}`);
}

/** Offers by source, in the order of names: what is unavailable has no source and comes last. */
export function bySource(offers: readonly Offer[], find: string): [source: string, offers: Offer[]][] {
  const words = find.toLowerCase().trim();
  const groups = new Map<string, Offer[]>();
  for (const offer of offers) {
    if (!`${offer.id} ${offer.name ?? ""} ${offer.description ?? ""}`.toLowerCase().includes(words)) continue;
    const source = offer.source ?? "none";
    groups.set(source, [...(groups.get(source) ?? []), offer]);
  }
  const last = (source: string): number => (source === "none" ? 1 : 0);
  return [...groups].sort(([one], [other]) => last(one) - last(other) || one.localeCompare(other));
}

/** Reads an address: `agent` shows what this agent would get; `find` is a part of a name or an id. */
export function capabilitySearch(raw: Record<string, unknown>): { agent?: string; find?: string } {
  const find = typeof raw.find === "number" ? String(raw.find) : raw.find;
  return { ...(typeof raw.agent === "string" && raw.agent !== "" ? { agent: raw.agent } : {}), ...(typeof find === "string" && find !== "" ? { find } : {}) };
}
