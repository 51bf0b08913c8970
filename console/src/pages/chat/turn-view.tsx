/** One turn: what a person said, and what the run answered so far. */
import { ApiError, listRunRecords, type TranscriptItem } from "@bollard/client";
import { useQuery } from "@tanstack/react-query";
import { memo, useCallback, useMemo, useSyncExternalStore, type ReactNode } from "react";
import { fileOf } from "@/parts/record-values";
import type { Block, FileRef, RunRecord } from "@/parts/run-block";
import type { RunFeed } from "@/parts/run-feed";
import { advance, NOTHING_YET, type RunProgress } from "@/parts/run-progress";
import { RunLink } from "@/parts/run-link";
import { useText } from "@/i18n/i18n";
import { Badge, RunState } from "@/ui/badge";
import { Time } from "@/ui/data";
import { CopyButton, ErrorNote } from "@/ui/feedback";
import { AnswerBlock } from "./answer";
import type { Outcome } from "./outbox";
import { RunEnding } from "./run-ending";
import { chatTexts } from "./texts";
import { blocksOf, hasEnded, type Turn } from "./turns";
import { UserMessage } from "./user-message";

const RECORDS = 100;
const RECORD_PAGES = 20;

export interface TurnProps {
  turn: Turn;
  feed: RunFeed | undefined;
  agentName: string;
  outcome: Outcome | undefined;
  /** Whether another run of the conversation comes first. */
  inLine: boolean;
  /** Whether details of an ended run may be fetched now; not while the list scrolls. */
  settled: boolean;
  /** Messages with a run of their own, which are not shown inside another one. */
  ownRun: (eventId: string) => boolean;
  isInspected: boolean;
  /** Shows the run in the inspector; absent while that is closed. */
  onInspect: ((runId: string) => void) | undefined;
  onRepeat: ((text: string, files: readonly FileRef[]) => void) | undefined;
}

export const TurnView = memo(function TurnView({ turn, feed, agentName, outcome, inLine, settled, ownRun, isInspected, onInspect, onRepeat }: TurnProps): ReactNode {
  const t = useText(chatTexts);
  const { run, user, items } = turn;
  const followed = useSyncExternalStore(feed?.subscribe ?? never, feed?.progress ?? nothing);
  const ended = run !== undefined && hasEnded(run);
  const records = useRunRecords(ended ? run.run_id : undefined, settled && followed.end === undefined);
  const progress = followed.seq > 0 ? followed : records;
  const fallback = useMemo(() => blocksOf(items), [items]);
  const blocks = (progress?.blocks ?? fallback).filter((block) => block.kind !== "steering" || !ownRun(block.eventId));
  const said = useCallback((eventId: string) => {
    const item = items.find((each) => each.event_id === eventId && each.role === "user");
    return item === undefined ? undefined : { text: item.content ?? "", files: filesOf(item) };
  }, [items]);
  const live = run !== undefined && !ended && progress?.end === undefined;
  const waits = inLine && (progress === undefined || progress.status === "queued");
  const caption = waits ? t("queued") : outcome === "started" ? t("started") : undefined;
  return (
    <article className="mx-auto flex max-w-[760px] flex-col gap-3 px-6 py-4 max-sm:px-4">
      {user === undefined ? null : <UserMessage text={user.content ?? ""} files={filesOf(user)} caption={caption} />}
      {run === undefined && blocks.length === 0 ? null : (
        <div className="relative flex min-w-0 flex-col gap-2">
          {isInspected ? <span aria-hidden className="absolute inset-y-0 -left-3 w-0.5 rounded-full bg-accent" /> : null}
          <p className="flex items-center gap-2 text-sm text-muted">
            <span className="font-medium text-text">{agentName}</span>
            <Status live={live} waits={waits} isQueued={run?.status === "queued"} progress={progress} feed={feed} />
          </p>
          {blocks.map((block) => <AnswerBlock key={block.key} block={block} runId={run?.run_id ?? ""} live={live} said={said} />)}
          {progress?.incomplete === true ? <p className="text-sm text-muted">{t("incomplete")}</p> : null}
          {run === undefined ? null : <RunEnding run={run} end={progress?.end} onRepeat={user === undefined || onRepeat === undefined ? undefined : () => onRepeat(user.content ?? "", filesOf(user))} />}
          {live ? null : <Footer turn={turn} blocks={blocks} progress={progress} onInspect={isInspected ? undefined : onInspect} />}
        </div>
      )}
    </article>
  );
});

function Status({ live, waits, isQueued, progress, feed }: { live: boolean; waits: boolean; isQueued: boolean; progress: RunProgress | undefined; feed: RunFeed | undefined }): ReactNode {
  const t = useText(chatTexts);
  const status = useSyncExternalStore(feed?.subscribe ?? never, feed?.status ?? live_);
  const error = useSyncExternalStore(feed?.subscribe ?? never, feed?.error ?? noError);
  if (!live || waits) return null;
  if (error !== undefined) return <ErrorNote error={error} />;
  if (status === "reconnecting") return <Badge tone="wait">{t("reconnecting")}</Badge>;
  if (progress === undefined || progress.status === "queued") return isQueued ? <RunState state="queued" /> : <Pulse text={t("starting")} />;
  return progress.status === "waiting" ? <RunState state="waiting" /> : <Pulse text={t("answering")} />;
}

function Pulse({ text }: { text: string }): ReactNode {
  return <span className="inline-flex items-center gap-1.5"><span aria-hidden className="size-2 animate-pulse-dot rounded-full bg-accent" />{text}</span>;
}

function Footer({ turn, blocks, progress, onInspect }: { turn: Turn; blocks: readonly Block[]; progress: RunProgress | undefined; onInspect: TurnProps["onInspect"] }): ReactNode {
  const t = useText(chatTexts);
  const answer = blocks.flatMap((block) => (block.kind === "text" ? [block.text] : [])).join("\n\n");
  const at = turn.run?.finished_at ?? progress?.endedAt ?? turn.items.at(-1)?.created_at ?? turn.at;
  return (
    <div className="flex flex-wrap items-center gap-x-3 gap-y-1 text-sm text-muted">
      {turn.run === undefined ? null : <RunLink run={turn.run.run_id} className="hover:text-text hover:underline">{t("openRun")}</RunLink>}
      {turn.run === undefined || onInspect === undefined ? null : <InspectButton runId={turn.run.run_id} onInspect={onInspect} />}
      <Time at={at} />
      {progress?.model === undefined ? null : <span>{progress.model}</span>}
      {answer === "" ? null : <CopyButton text={answer} label={t("copy")} className="text-muted" />}
    </div>
  );
}

function InspectButton({ runId, onInspect }: { runId: string; onInspect: (runId: string) => void }): ReactNode {
  const t = useText(chatTexts);
  return <button type="button" className="rounded-sm hover:text-text hover:underline" onClick={() => onInspect(runId)}>{t("inspectThis")}</button>;
}

/** What a run did, from its records on disk. A run that has ended does not change. */
function useRunRecords(runId: string | undefined, wanted: boolean): RunProgress | undefined {
  const query = useQuery({
    queryKey: ["run-records", runId],
    queryFn: async () => (runId === undefined ? NOTHING_YET : await readRecords(runId)),
    enabled: wanted && runId !== undefined,
    staleTime: Infinity,
    gcTime: 10 * 60_000,
    structuralSharing: false,
    retry: (count, error) => error instanceof ApiError && error.retryable && count < 2,
  });
  return query.data === undefined || query.data.seq === 0 ? undefined : query.data;
}

async function readRecords(runId: string): Promise<RunProgress> {
  let progress = NOTHING_YET;
  for (let page = 0; page < RECORD_PAGES; page += 1) {
    const found = await listRunRecords({ path: { run_id: runId }, query: { limit: RECORDS, ...(progress.seq > 0 ? { after: progress.seq } : {}) } });
    progress = advance(progress, found.items as RunRecord[]);
    if (!found.has_more) break;
  }
  return progress;
}

export function filesOf(item: TranscriptItem): FileRef[] {
  return (item.artifact_refs ?? []).map((ref) => fileOf(ref));
}

const never = (): (() => void) => () => undefined;
const nothing = (): RunProgress => NOTHING_YET;
const live_ = (): "live" => "live";
const noError = (): undefined => undefined;
