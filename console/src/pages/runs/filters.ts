/** The filters of the list of runs, as they are in the address. */
export interface RunFilters {
  status?: string;
  agent?: string;
  source?: string;
  actor?: string;
  text?: string;
  /** A length of time until now, such as `24h`. */
  time?: string;
}

export const FILTERS = ["status", "agent", "source", "actor", "text", "time"] as const satisfies readonly (keyof RunFilters)[];
export const STATUSES = ["running", "waiting", "queued", "dispatching", "completed", "failed", "timeout", "cancelled"] as const;
export const TIMES: Record<string, number> = { "1h": 3_600, "24h": 86_400, "7d": 7 * 86_400, "30d": 30 * 86_400 };

/** Unknown and empty parameters of an address are left out. */
export function runFilters(search: Record<string, unknown>): RunFilters {
  const found: RunFilters = {};
  for (const name of FILTERS) {
    const value = search[name];
    const said = typeof value === "number" ? String(value) : typeof value === "string" ? value.trim() : "";
    if (said !== "" && isKnown(name, said)) found[name] = said;
  }
  return found;
}

function isKnown(name: keyof RunFilters, value: string): boolean {
  if (name === "status") return (STATUSES as readonly string[]).includes(value);
  return name === "time" ? value in TIMES : true;
}

/** The parameters of the request. The beginning of the time is a whole minute, so that pages of one list agree. */
export function queryOf({ time, status, ...rest }: RunFilters, now: number): Record<string, string | number> & { since?: number } {
  const since = time === undefined ? undefined : Math.floor((now - (TIMES[time] ?? 0)) / 60) * 60;
  return { ...rest, ...(status === undefined ? {} : { status }), ...(since === undefined ? {} : { since }) };
}
