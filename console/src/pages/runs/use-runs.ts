import { getRun, listRuns, type AgentRun } from "@bollard/client";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { queryOf, type RunFilters } from "./filters";
import { merge, NONE, reveal, take, type LiveRows } from "./live-rows";
import { ACTIVE } from "./stop-run";

export const PAGE = 50;
/** Runs that still go on and are older than the newest page: so many of them are asked for one by one. */
const WATCHED = 20;

interface Page {
  items: AgentRun[];
  has_more: boolean;
  next_cursor?: string;
}

export interface RunsState {
  /** The runs of the pages, without live ones. */
  pages: readonly AgentRun[];
  rows: readonly AgentRun[];
  /** New runs that are not shown, because the list is not at its top. */
  waiting: number;
  arrived: ReadonlySet<string>;
  showNew: () => void;
  loading: boolean;
  more: boolean;
  readMore: () => void;
  error: Error | null;
  retry: () => void;
}

/** Pages of the past that do not move, the newest page that the stream of changes refreshes, and runs in between that still go on. */
export function useRuns(filters: RunFilters, atTop: boolean): RunsState {
  const [asked] = useState(() => queryOf(filters, Date.now() / 1_000));
  const ask = async (cursor?: string): Promise<Page> => await listRuns({ query: { ...asked, limit: PAGE, ...(cursor === undefined ? {} : { cursor }) } });
  const query = useInfiniteQuery({
    queryKey: ["run-pages", asked],
    queryFn: ({ pageParam }) => ask(pageParam),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => (last.has_more ? last.next_cursor : undefined),
    staleTime: Infinity,
    gcTime: 0,
    refetchOnWindowFocus: false,
  });
  const head = useQuery({ queryKey: ["runs", "newest", asked], queryFn: () => ask(), enabled: query.data !== undefined });
  const pages = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data]);
  const [live, setLive] = useState<LiveRows>(NONE);
  const newest = head.data?.items;
  if (newest !== undefined && newest !== live.taken) setLive(take(live, newest, pages, atTop));
  const watched = useMemo(() => newest === undefined ? [] : pages.filter((run) => ACTIVE.has(run.status) && newest.every((each) => each.run_id !== run.run_id)).slice(0, WATCHED).map((run) => run.run_id), [pages, newest]);
  const old = useQuery({ queryKey: ["runs", "watched", watched], queryFn: () => Promise.all(watched.map((id) => getRun({ path: { run_id: id } }))), enabled: watched.length > 0 });
  const merged = useMemo(() => merge(pages, live, old.data ?? [], filters.status), [pages, live, old.data, filters.status]);
  return {
    pages,
    ...merged,
    arrived: live.arrived,
    showNew: () => setLive(reveal(live, pages)),
    loading: query.data === undefined && query.error === null,
    more: query.hasNextPage,
    readMore: () => {
      if (query.hasNextPage && !query.isFetchingNextPage) void query.fetchNextPage();
    },
    error: query.error,
    retry: () => void (query.data === undefined ? query.refetch() : query.fetchNextPage()),
  };
}
