import type { AgentRun } from "@bollard/client";

/** Runs that came while the list was open, newest first, and those of them that the list shows. */
export interface LiveRows {
  /** The newest page that was taken in. */
  taken: readonly AgentRun[] | undefined;
  rows: readonly AgentRun[];
  shown: ReadonlySet<string>;
  /** Those that were shown last: they slide in. */
  arrived: ReadonlySet<string>;
}

export const NONE: LiveRows = { taken: undefined, rows: [], shown: new Set(), arrived: new Set() };

/** Takes in the newest page. New runs appear only when the list is at its top; otherwise they wait. */
export function take(live: LiveRows, page: readonly AgentRun[], pages: readonly AgentRun[], atTop: boolean): LiveRows {
  const newer = new Map(page.map((run) => [run.run_id, run]));
  const rows = [...page.filter((run) => !live.rows.some((each) => each.run_id === run.run_id)), ...live.rows.map((run) => newer.get(run.run_id) ?? run)].sort(newestFirst);
  const next = { ...live, taken: page, rows };
  return atTop ? reveal(next, pages) : next;
}

/** Shows everything that waits. */
export function reveal(live: LiveRows, pages: readonly AgentRun[]): LiveRows {
  const fresh = freshOf(live, pages).map((run) => run.run_id).filter((id) => !live.shown.has(id));
  return fresh.length === 0 ? live : { ...live, shown: new Set([...live.shown, ...fresh]), arrived: new Set(fresh) };
}

/** The rows of the list: live ones on top, then the pages with the newest states; and how many wait. */
export function merge(pages: readonly AgentRun[], live: LiveRows, updates: readonly AgentRun[], status: string | undefined): { rows: AgentRun[]; waiting: number } {
  const newest = new Map([...updates, ...live.rows].map((run) => [run.run_id, run]));
  const fresh = freshOf(live, pages);
  const shown = fresh.filter((run) => live.shown.has(run.run_id));
  const oldest = Math.min(...[...newest.values()].map((run) => run.created_at));
  const rows = [...shown, ...pages.map((run) => (run.created_at < oldest ? run : newest.get(run.run_id) ?? run))]; // looking up thousands of ids is slow
  return { rows: status === undefined ? rows : rows.filter((run) => run.status === status), waiting: fresh.length - shown.length };
}

/** The pages are in order, so that a run above the first of them is in none. */
function freshOf(live: LiveRows, pages: readonly AgentRun[]): AgentRun[] {
  const top = pages[0];
  return live.rows.filter((run) => top === undefined || newestFirst(run, top) < 0);
}

function newestFirst(left: AgentRun, right: AgentRun): number {
  return right.created_at - left.created_at || (left.run_id === right.run_id ? 0 : left.run_id < right.run_id ? 1 : -1);
}
