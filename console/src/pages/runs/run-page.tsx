/** The timeline of one run. The selected step is in the address. */
import { ApiError, getRun, listDeliveries, type AgentRun, type Delivery } from "@bollard/client";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useRef, type ReactNode } from "react";
import { useSession } from "@/api/session";
import { pageNames } from "@/frame/navigation";
import { useText } from "@/i18n/i18n";
import { useRecords, useUntil, type RunView } from "@/parts/timeline/run-records";
import { makeSpan, object, text, type Span, type SpanState } from "@/parts/timeline/span";
import { Waterfall } from "@/parts/timeline/waterfall";
import { Button } from "@/ui/button";
import { Empty, ErrorNote, Skeleton } from "@/ui/feedback";
import { useNarrow } from "@/ui/media";
import { Dialog } from "@/ui/overlay";
import { Page, useTitle } from "@/ui/page";
import { StepDetails } from "./details/step";
import { useEvent } from "./details/origin";
import { FailureNote, RunHead } from "./run-head";
import { runTexts } from "./run-texts";
import { rowWords } from "./run-words";

export default function RunPage(): ReactNode {
  const { runId } = useParams({ from: "/runs/$runId" });
  const t = useText(runTexts);
  const names = useText(pageNames);
  const query = useQuery({ queryKey: ["runs", runId], queryFn: () => getRun({ path: { run_id: runId } }) });
  if (query.data !== undefined) return <RunTimeline key={runId} run={query.data} refetch={() => void query.refetch()} />;
  const missing = query.error instanceof ApiError && query.error.code === "not_found";
  return (
    <Page title={names("runs")} entity={runId}>
      {missing ? (
        <Empty title={t("missing")} action={<Button asChild kind="primary"><Link to="/runs">{t("toRuns")}</Link></Button>}>{t("missingHint")}</Empty>
      ) : query.error === null ? <Skeleton rows={10} /> : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}
    </Page>
  );
}

function RunTimeline({ run, refetch }: { run: AgentRun; refetch: () => void }): ReactNode {
  const t = useText(runTexts);
  const names = useText(pageNames);
  const view = useRecords(run.run_id);
  const { timeline } = view;
  const { ended } = timeline;
  useEffect(() => {
    if (ended) refetch(); // the end, its error and the usage
    // eslint-disable-next-line react-hooks/exhaustive-deps -- once, when the end comes
  }, [ended]);
  const content = object(useEvent(run.event_id).data?.content);
  const input = text(content.text) ?? run.input ?? undefined;
  const spans = useSpans(run, view, input);
  const until = useUntil(run, view);
  const status = statusOf(run, timeline.run.state);
  useTitle(run.input ?? run.run_id, names("runs"));
  const failedModel = timeline.run.children.findLast((span) => span.kind === "model");
  return (
    <main id="content" tabIndex={-1} className="flex h-full min-h-0 flex-col gap-4 overflow-y-auto p-6 pb-0 outline-none max-sm:p-4 max-sm:pb-0">
      <RunHead run={run} status={status} until={until} content={content} />
      {run.status === "failed" || run.status === "timeout" || run.status === "cancelled" ? <FailureNote run={run} failedModel={failedModel?.state === "failed" ? failedModel.name : undefined} /> : null}
      {view.error === undefined ? null : <ErrorNote error={view.error} />}
      <Steps run={run} spans={spans} version={view.version} from={Math.min(run.created_at, timeline.run.start || run.created_at)} until={Math.max(until, ...spans.map((span) => span.end ?? 0))} note={view.loading && timeline.size > 100 ? t("loadingSteps", { count: timeline.size }) : undefined} />
    </main>
  );
}

/** The tree at the left, the selected step at the right; on a narrow screen the step is a sheet. */
function Steps({ run, spans, version, from, until, note }: { run: AgentRun; spans: readonly Span[]; version: number; from: number; until: number; note: string | undefined }): ReactNode {
  const t = useText(runTexts);
  const narrow = useNarrow();
  const navigate = useNavigate();
  const { at } = useSearch({ from: "/runs/$runId" });
  const pane = useRef<HTMLDivElement>(null);
  const select = useCallback((id: string | undefined) => void navigate({ to: "/runs/$runId", params: { runId: run.run_id }, search: id === undefined ? {} : { at: id }, replace: true }), [navigate, run.run_id]);
  const nameOf = useCallback((span: Span) => (span.kind === "run" ? run.agent_id : span.kind === "delivery" || span.kind === "event" ? span.name : rowWords(span, t)), [run.agent_id, t]);
  const chosen = find(spans, at) ?? (narrow ? undefined : find(spans, "run"));
  return (
    <div className="grid min-h-80 flex-1 grid-cols-1 gap-4 pb-4 xl:grid-cols-[minmax(0,1fr)_24rem]">
      <section aria-label={t("steps")} className="relative flex min-h-0 flex-col overflow-hidden rounded-lg border border-line bg-surface">
        <Waterfall spans={spans} version={version} from={from} until={until} nameOf={nameOf} selected={chosen?.id} onSelect={select} onOpen={() => pane.current?.focus()} className="flex-1" />
        {note === undefined ? null : <p role="status" className="border-t border-line px-3 py-1 text-sm text-muted">{note}</p>}
      </section>
      {narrow ? (
        <Dialog open={chosen !== undefined} onOpenChange={(open) => open ? undefined : select(undefined)} title={t("details")} place="side">
          {chosen === undefined ? null : <StepDetails span={chosen} run={run} />}
        </Dialog>
      ) : (
        <div ref={pane} tabIndex={-1} role="region" aria-label={t("details")} className="min-h-0 overflow-y-auto rounded-lg border border-line bg-surface p-4 scroll-thin">
          {chosen === undefined ? <Skeleton rows={4} /> : <StepDetails key={chosen.id} span={chosen} run={run} />}
        </div>
      )}
    </div>
  );
}

const DELIVERED: Record<Delivery["status"], SpanState> = { queued: "open", started: "open", shown: "open", sent: "done", failed: "failed", unknown: "unknown" };

/** The stream of changes tells nothing of deliveries, which may end long after their run: they are asked for while one is open. */
const DELIVERY_MS = 2_000;

/** The event before the run, the run, and the deliveries after it. */
function useSpans(run: AgentRun, { timeline, version }: RunView, input: string | undefined): readonly Span[] {
  const { may } = useSession();
  const { data } = useQuery({ queryKey: ["runs", run.run_id, "deliveries"], queryFn: () => listDeliveries({ query: { run: run.run_id, limit: 100 } }), enabled: may("channels.read"), refetchInterval: (query) => query.state.data?.items.some((each) => DELIVERED[each.status] === "open") === true ? DELIVERY_MS : false });
  const actor = run.actor?.actor_name ?? run.actor?.actor_id ?? run.source ?? "";
  return useMemo(() => {
    const event = makeSpan("event", "event", [actor, input?.split("\n", 1)[0]].filter(Boolean).join(": "), run.created_at);
    const deliveries = (data?.items ?? []).toReversed().map((each) =>
      makeSpan(`delivery:${each.delivery_id}`, "delivery", each.channel_id, each.created_at, {
        end: DELIVERED[each.status] === "open" ? undefined : each.updated_at,
        state: DELIVERED[each.status],
        records: [{ run_id: run.run_id, seq: 0, epoch: 0, type: "delivery", data: each, observed: true, created_at: each.created_at }],
      }),
    );
    return [event, runSpan(run, timeline), ...deliveries];
    // eslint-disable-next-line react-hooks/exhaustive-deps -- the timeline changes in place, and its version with it
  }, [timeline, version, run, actor, input, data]);
}

const ENDED: Partial<Record<AgentRun["status"], SpanState>> = { completed: "done", cancelled: "cancelled" };

/** A run that has ended shows so before its last record is read. */
function runSpan(run: AgentRun, { run: span, ended }: RunView["timeline"]): Span {
  return ended || run.finished_at == null ? span : { ...span, start: span.start || run.created_at, end: run.finished_at, state: ENDED[run.status] ?? "failed" };
}

function find(spans: readonly Span[], id: string | undefined): Span | undefined {
  for (const span of spans) {
    const found = span.id === id ? span : find(span.children, id);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The stream is faster than the list: its states count while the run goes on. */
function statusOf(run: AgentRun, state: SpanState): string {
  if (run.status === "queued" || run.status === "dispatching" || run.finished_at != null) return run.status;
  return state === "waiting" ? "waiting" : state === "open" ? "running" : run.status;
}
