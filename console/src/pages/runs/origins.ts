import type { AgentRun } from "@bollard/client";

/** What the runs that were read came from: the choices of the filters. */
export interface Origins {
  agents: ReadonlySet<string>;
  sources: ReadonlySet<string>;
  /** Names by id. */
  actors: ReadonlyMap<string, string>;
}

export const NO_ORIGINS: Origins = { agents: new Set(), sources: new Set(), actors: new Map() };

/** The same value if the runs bring nothing new, so that a page of known agents and people draws no filter again. */
export function withOrigins(known: Origins, runs: readonly AgentRun[]): Origins {
  const agents = new Set(known.agents);
  const sources = new Set(known.sources);
  const actors = new Map(known.actors);
  for (const { agent_id, source, actor } of runs) {
    agents.add(agent_id);
    if (source != null && source !== "") sources.add(source);
    if (actor?.actor_id != null && !actors.has(actor.actor_id)) actors.set(actor.actor_id, actor.actor_name ?? actor.actor_id);
  }
  const same = agents.size === known.agents.size && sources.size === known.sources.size && actors.size === known.actors.size;
  return same ? known : { agents, sources, actors };
}
