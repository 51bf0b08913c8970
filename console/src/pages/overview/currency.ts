import type { Overview } from "@bollard/client";

/** The currency in which most was spent. */
export function mainCurrency(agents: readonly Overview["agents"][number][]): string | undefined {
  const sums = new Map<string, number>();
  for (const agent of agents) for (const [code, value] of Object.entries(agent.cost)) sums.set(code, (sums.get(code) ?? 0) + value);
  return [...sums].filter(([, value]) => value > 0).sort(([, left], [, right]) => right - left)[0]?.[0];
}
