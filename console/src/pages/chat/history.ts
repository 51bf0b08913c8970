/** The messages and runs of a conversation. The newest page is fetched again on every change; older pages are fetched once and kept. */
import { ApiError, listMessages, listRuns, type AgentRun, type TranscriptItem } from "@bollard/client";
import { useQuery, useQueryClient, type QueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";

export interface Place {
  conversation: string;
  thread?: string | undefined;
  bot?: string | undefined;
}

export interface History {
  /** Oldest first. */
  items: readonly TranscriptItem[];
  /** Newest first. */
  runs: readonly AgentRun[];
  /** Where older messages and runs continue. */
  older: string | undefined;
  olderRuns: string | undefined;
}

const PAGE = 50;
const OLDER_PAGE = 100;
const RUN_PAGES = 5;
export const NO_HISTORY: History = { items: [], runs: [], older: undefined, olderRuns: undefined };

export function historyKey(place: Place): readonly unknown[] {
  return ["conversations", "history", place.conversation, place.thread ?? null, place.bot ?? null];
}

async function messagePage(place: Place, limit: number, cursor?: string): Promise<{ items: readonly TranscriptItem[]; next_cursor?: string }> {
  const query = { limit, ...(cursor === undefined ? {} : { cursor }), ...(place.thread === undefined ? {} : { thread: place.thread }), ...(place.bot === undefined ? {} : { bot: place.bot }) };
  try {
    return await listMessages({ path: { conversation_id: place.conversation }, query });
  } catch (error) {
    if (error instanceof ApiError && error.code === "not_found") return { items: [] }; // nothing was said yet
    throw error;
  }
}

async function newest(place: Place, queries: QueryClient): Promise<History> {
  const [messages, runs] = await Promise.all([messagePage(place, PAGE), listRuns({ query: { conversation: place.conversation, limit: PAGE } })]);
  const page: History = { items: messages.items.toReversed(), runs: runs.items, older: messages.next_cursor, olderRuns: runs.next_cursor };
  return withNewest(queries.getQueryData<History>(historyKey(place)) ?? NO_HISTORY, page);
}

/** Adds the newest page. If it does not reach what is known, there is a hole: the known part is dropped and loaded again when it is scrolled to. */
export function withNewest(known: History, page: History): History {
  const first = page.items[0];
  const overlaps = first !== undefined && known.items.some((item) => item.transcript_id === first.transcript_id);
  if (known.items.length === 0 || page.older === undefined || !overlaps) return page;
  return {
    items: joined(known.items, page.items),
    runs: joinedRuns(page.runs, known.runs),
    older: known.older,
    olderRuns: known.runs.length > page.runs.length ? known.olderRuns : page.olderRuns,
  };
}

function joined(before: readonly TranscriptItem[], after: readonly TranscriptItem[]): TranscriptItem[] {
  const known = new Set(before.map((item) => item.transcript_id));
  return [...before, ...after.filter((item) => !known.has(item.transcript_id))];
}

function joinedRuns(newer: readonly AgentRun[], older: readonly AgentRun[]): AgentRun[] {
  const known = new Set(newer.map((run) => run.run_id));
  return [...newer, ...older.filter((run) => !known.has(run.run_id))];
}

export interface LoadedHistory {
  history: History;
  isLoading: boolean;
  error: Error | null;
  refetch: () => void;
  loadOlder: () => void;
  loadingOlder: boolean;
  olderError: unknown;
}

export function useHistory(place: Place): LoadedHistory {
  const queries = useQueryClient();
  const query = useQuery({ queryKey: historyKey(place), queryFn: () => newest(place, queries), structuralSharing: false });
  const [loadingOlder, setLoadingOlder] = useState(false);
  const [olderError, setOlderError] = useState<unknown>();
  const history = query.data ?? NO_HISTORY;
  const { older } = history;
  const loadOlder = useCallback(() => {
    if (older === undefined || loadingOlder) return;
    setLoadingOlder(true);
    setOlderError(undefined);
    olderPage(place, older, queries).catch(setOlderError).finally(() => setLoadingOlder(false));
  }, [older, loadingOlder, place, queries]);
  return { history, isLoading: query.isPending, error: query.error, refetch: () => void query.refetch(), loadOlder, loadingOlder, olderError };
}

async function olderPage(place: Place, cursor: string, queries: QueryClient): Promise<void> {
  const key = historyKey(place);
  const messages = await messagePage(place, OLDER_PAGE, cursor);
  const items = messages.items.toReversed();
  const known = queries.getQueryData<History>(key) ?? NO_HISTORY;
  const reach = items[0]?.created_at ?? 0;
  let { runs, olderRuns } = known;
  for (let page = 0; page < RUN_PAGES && olderRuns !== undefined && (runs.at(-1)?.created_at ?? 0) >= reach; page += 1) {
    const more = await listRuns({ query: { conversation: place.conversation, limit: OLDER_PAGE, cursor: olderRuns } });
    runs = joinedRuns(runs, more.items);
    olderRuns = more.next_cursor;
  }
  queries.setQueryData<History>(key, (now = NO_HISTORY) => ({ items: joined(items, now.items), runs: joinedRuns(now.runs, runs), older: messages.next_cursor, olderRuns }));
}
