/** The filters, the chosen record and the tab of the audit, as the address holds them. */
import type { ListAuditData } from "@bollard/client";

export const SEVERITIES = ["debug", "info", "warning", "error", "critical"] as const;
export type Severity = (typeof SEVERITIES)[number];
/** The end of the year 9999. A later time has no place in a field of the form. */
const LATEST = 253_402_300_799;
export const TABS = ["records", "heads", "outside"] as const;

export interface AuditSearch {
  type?: string;
  /** The lowest severity that is shown. */
  severity?: Severity;
  run?: string;
  actor?: string;
  /** Seconds of the epoch. */
  since?: number;
  until?: number;
  record?: number;
  tab?: (typeof TABS)[number];
}

/** Reads an address. What is not a filter is left out, so that an old link still opens the page. */
export function auditSearch(raw: Record<string, unknown>): AuditSearch {
  const found: AuditSearch = {};
  for (const name of ["type", "run", "actor"] as const) {
    const value = raw[name];
    const said = typeof value === "number" ? String(value) : value;
    if (typeof said === "string" && said.trim() !== "") found[name] = said.trim();
  }
  for (const name of ["since", "until", "record"] as const) {
    const value = Number(raw[name] ?? Number.NaN);
    if (value >= 0 && value <= LATEST) found[name] = value;
  }
  const severity = SEVERITIES.find((each) => each === raw.severity);
  const tab = TABS.find((each) => each === raw.tab);
  return { ...found, ...(severity === undefined ? {} : { severity }), ...(tab === undefined ? {} : { tab }) };
}

/** The filters as the host names them. */
export function auditQuery({ type, severity, run, actor, since, until }: AuditSearch): NonNullable<ListAuditData["query"]> {
  const types = type?.split(/[\s,]+/).filter(Boolean).join(",");
  const all = { type: types, severity, run_id: run, actor, since, until };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined && value !== ""));
}

export function isFiltered(search: AuditSearch): boolean {
  return Object.keys(auditQuery(search)).length > 0;
}

/** A time for a field of type `datetime-local`, in the zone of the reader. */
export function localTime(seconds: number | undefined): string {
  if (seconds === undefined) return "";
  const date = new Date(seconds * 1000);
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}
