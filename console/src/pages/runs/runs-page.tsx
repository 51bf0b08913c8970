/** The list of runs: newest first, filtered by the address, live. */
import type { AgentRun } from "@bollard/client";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowUp } from "lucide-react";
import { memo, useCallback, useEffect, useRef, useState, type ReactNode, type RefObject } from "react";
import { useSession } from "@/api/session";
import { pageNames } from "@/frame/navigation";
import { useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { cn } from "@/ui/classes";
import { Empty, ErrorNote, Skeleton } from "@/ui/feedback";
import { useNarrow } from "@/ui/media";
import { useTitle } from "@/ui/page";
import { FilterBar } from "./filter-bar";
import type { RunFilters } from "./filters";
import { listTexts } from "./list-texts";
import { NO_ORIGINS, withOrigins } from "./origins";
import { columns, RunRow } from "./run-row";
import { StopRun } from "./stop-run";
import { PAGE, useRuns } from "./use-runs";

const ROW_PX = 41;
const PHONE_ROW_PX = 64;
/** The list counts as scrolled to its top within this distance. */
const TOP_PX = 8;
/** So many rows below the screen are read before a person scrolls to them. */
const AHEAD = 2 * PAGE;

export default function RunsPage(): ReactNode {
  const t = useText(listTexts);
  const names = useText(pageNames);
  useTitle(names("runs"));
  const filters = useSearch({ from: "/runs" });
  const navigate = useNavigate();
  const change = useCallback((next: RunFilters) => void navigate({ to: "/runs", search: next, replace: true }), [navigate]);
  const [origins, setOrigins] = useState(NO_ORIGINS);
  const read = useCallback((runs: readonly AgentRun[]) => setOrigins((known) => withOrigins(known, runs)), []);
  return (
    <main id="content" tabIndex={-1} className="flex h-full min-h-0 flex-col gap-4 p-6 pb-0 outline-none max-sm:p-4 max-sm:pb-0">
      <header>
        <h1>{names("runs")}</h1>
        <p className="max-w-3xl text-pretty text-muted max-sm:hidden">{t("about")}</p>
      </header>
      <FilterBar filters={filters} origins={origins} onChange={change} />
      <RunList key={JSON.stringify(filters)} filters={filters} onRead={read} onChange={change} />
    </main>
  );
}

/** `onRead` hears of the runs of each page once. What it changes in the filters does not draw the list again. */
const RunList = memo(function RunList({ filters, onRead, onChange }: { filters: RunFilters; onRead: (runs: readonly AgentRun[]) => void; onChange: (filters: RunFilters) => void }): ReactNode {
  const t = useText(listTexts);
  const [atTop, setAtTop] = useState(true);
  const { pages, rows, waiting, arrived, showNew, loading, more, readMore, error, retry } = useRuns(filters, atTop);
  const heard = useRef(0);
  useEffect(() => {
    onRead(pages.slice(heard.current));
    heard.current = pages.length;
  }, [pages, onRead]);
  const [stopping, setStopping] = useState<string>();
  const box = useRef<HTMLDivElement>(null);
  if (error !== null && pages.length === 0) return <ErrorNote error={error} onRetry={retry} />;
  if (loading) return <Skeleton rows={12} />;
  if (rows.length === 0 && waiting === 0 && !more) return <NoRuns filtered={Object.keys(filters).length > 0} onClear={() => onChange({})} />;
  return (
    <section className="relative flex min-h-0 flex-1 flex-col overflow-hidden rounded-t-lg border border-b-0 border-line bg-surface">
      {waiting === 0 ? null : (
        <Button
          kind="primary"
          size="sm"
          className="absolute top-11 left-1/2 z-10 -translate-x-1/2 rounded-full shadow-overlay"
          onClick={() => {
            showNew();
            box.current?.scrollTo({ top: 0 });
          }}
        >
          <ArrowUp aria-hidden />{t("new", { count: waiting })}
        </Button>
      )}
      <Rows
        box={box}
        rows={rows}
        arrived={arrived}
        more={more}
        onEnd={readMore}
        onScroll={(top) => {
          const now = top <= TOP_PX;
          if (now !== atTop) setAtTop(now);
          if (now && waiting > 0) showNew();
        }}
        onStop={setStopping}
      />
      {error === null ? null : <ErrorNote error={error} onRetry={retry} className="m-3" />}
      <StopRun runId={stopping} onClose={() => setStopping(undefined)} />
    </section>
  );
});

interface RowsProps {
  box: RefObject<HTMLDivElement | null>;
  rows: readonly AgentRun[];
  arrived: ReadonlySet<string>;
  more: boolean;
  onEnd: () => void;
  onScroll: (top: number) => void;
  onStop: (id: string) => void;
}

function Rows({ box, rows, arrived, more, onEnd, onScroll, onStop }: RowsProps): ReactNode {
  const t = useText(listTexts);
  const height = useNarrow(640) ? PHONE_ROW_PX : ROW_PX;
  const keyOf = useCallback((index: number) => rows[index]?.run_id ?? index, [rows]); // a new function would measure every row again
  // eslint-disable-next-line react-hooks/incompatible-library -- the page is built without the compiler that this concerns
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => box.current, estimateSize: () => height, overscan: 10, getItemKey: keyOf });
  useEffect(() => virtual.measure(), [height, virtual]);
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? -1;
  const near = more && last >= rows.length - AHEAD;
  useEffect(() => {
    if (near) onEnd();
    // eslint-disable-next-line react-hooks/exhaustive-deps -- asked again when more rows came and their end is near
  }, [near, rows.length]);
  const heads = [["state", ""], ["input", "max-sm:hidden"], ["agent", "max-md:hidden"], ["source", "max-xl:hidden"], ["actor", "max-xl:hidden"], ["started", "max-sm:hidden"], ["took", "text-right max-xl:hidden"], ["cost", "text-right max-xl:hidden"]] as const;
  return (
    <div ref={box} className="min-h-0 flex-1 overflow-y-auto scroll-thin" onScroll={(event) => onScroll(event.currentTarget.scrollTop)}>
      <div role="table" aria-label={t("label")} aria-rowcount={more ? -1 : rows.length + 1}>
        <div role="rowgroup" className="sticky top-0 z-[1] bg-surface">
          <div role="row" className={cn(columns, "h-9 border-b border-line text-sm text-muted max-sm:sr-only")}>
            {heads.map(([name, className]) => <span key={name} role="columnheader" className={cn("truncate", className)}>{t(name)}</span>)}
            <span role="columnheader" className="max-sm:col-start-3"><span className="sr-only">{t("actions")}</span></span>
          </div>
        </div>
        <div role="rowgroup" className="relative" style={{ height: virtual.getTotalSize() }}>
          {items.map((item) => {
            const run = rows[item.index];
            return run === undefined ? null : (
              <div key={item.key} role="row" aria-rowindex={item.index + 2} className="absolute inset-x-0 top-0" style={{ height: item.size, transform: `translateY(${item.start}px)` }}>
                <RunRow run={run} arrived={arrived.has(run.run_id)} onStop={onStop} />
              </div>
            );
          })}
        </div>
      </div>
      {more ? <p role="status" className="px-3 py-2 text-sm text-muted">{t(rows.length === 0 ? "looking" : "more")}</p> : null}
    </div>
  );
}

function NoRuns({ filtered, onClear }: { filtered: boolean; onClear: () => void }): ReactNode {
  const t = useText(listTexts);
  const { may } = useSession();
  if (filtered) return <Empty title={t("nothing")} action={<Button onClick={onClear}>{t("clear")}</Button>}>{t("nothingWords")}</Empty>;
  return (
    <Empty title={t("empty")} {...(may("runs.create") ? { action: <Button asChild kind="primary"><Link to="/chat">{t("emptyAction")}</Link></Button>, command: 'bollard chat --agent demo --message "hello"' } : {})}>
      {t("emptyWords")}
    </Empty>
  );
}
