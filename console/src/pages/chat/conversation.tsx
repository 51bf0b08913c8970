/** One conversation: its messages, the active run, and the composer. */
import { ApiError, cancelRun, type AgentRun } from "@bollard/client";
import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Ban, CircleAlert, CloudOff, CornerDownRight, LoaderCircle } from "lucide-react";
import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore, type ReactNode } from "react";
import { useSession } from "@/api/session";
import { useErrorText } from "@/i18n/errors";
import { useLanguage, useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { cn } from "@/ui/classes";
import { ErrorNote, Skeleton } from "@/ui/feedback";
import { useNotes } from "@/ui/toast";
import type { Agents } from "./agents";
import { Composer, type Mode } from "./composer";
import { useFollowedRuns } from "./followed-runs";
import { useHistory, type Place } from "./history";
import { MessageList } from "./message-list";
import type { Outbox, Outcome, Outgoing } from "./outbox";
import { chatTexts } from "./texts";
import { hasEnded, turnsOf, waitsInLine, type Turn } from "./turns";
import { TurnView } from "./turn-view";
import { UserMessage } from "./user-message";
import { Welcome } from "./welcome";

const MODES: readonly string[] = ["steer", "queue", "interrupt", "reject", "parallel"];

export interface ConversationProps {
  place: Place;
  agents: Agents;
  agent: string;
  outbox: Outbox;
  onBegun: () => void;
  /** The run in the inspector, if it is open. */
  inspected: string | undefined;
  onInspect: ((runId: string) => void) | undefined;
}

export function Conversation({ place, agents, agent, outbox, onBegun, inspected, onInspect }: ConversationProps): ReactNode {
  const t = useText(chatTexts);
  const { may } = useSession();
  const { language } = useLanguage();
  const loaded = useHistory(place);
  const { items, runs } = loaded.history;
  const feeds = useFollowedRuns(place, runs);
  const turns = useMemo(() => turnsOf(items, runs), [items, runs]);
  const sent = useSyncExternalStore(outbox.subscribe, outbox.messages);
  const mine = useMemo(() => sent.filter((message) => message.conversation === place.conversation), [sent, place.conversation]);
  const known = useMemo(() => new Set(items.map((item) => item.event_id)), [items]);
  const outgoing = mine.filter((message) => message.eventId === undefined || !known.has(message.eventId));
  const own = useMemo(() => new Set(runs.map((run) => run.event_id)), [runs]);
  const ownRun = useCallback((eventId: string) => own.has(eventId), [own]);
  const writes = may("runs.create") && place.bot === undefined;
  const isActive = (run: AgentRun): boolean => !hasEnded(run) && feeds.find(run.run_id)?.progress().end === undefined;
  const active = runs.findLast(isActive);
  const ofAgent = runs.some((run) => run.agent_id === agent && isActive(run));
  const send = useCallback((text: string, files: Outgoing["files"] = []) => {
    outbox.add({ conversation: place.conversation, thread: place.thread, agent, text, files, locale: language === "zh" ? "zh_Hans" : "en_US" });
    onBegun();
  }, [outbox, place, agent, language, onBegun]);
  const stop = useStop(active?.run_id);
  const rows = [...turns.map((turn) => turn.eventId), ...outgoing.map((message) => message.id)];
  const row = (index: number, settled: boolean): ReactNode => {
    const turn = turns[index];
    const message = outgoing[index - turns.length];
    if (turn !== undefined) {
      const outcome = index === rows.length - 1 ? mine.find((each) => each.eventId === turn.eventId)?.outcome : undefined;
      const name = turn.run === undefined ? "" : agents.name(turn.run.agent_id);
      return <TurnView turn={turn} feed={turn.run === undefined ? undefined : feeds.find(turn.run.run_id)} agentName={name} outcome={outcome} inLine={waitsInLine(turns, index, isActive)} settled={settled} ownRun={ownRun} isInspected={turn.run !== undefined && turn.run.run_id === inspected} onInspect={onInspect} onRepeat={writes ? send : undefined} />;
    }
    return message === undefined ? null : <OutgoingMessage message={message} outbox={outbox} />;
  };
  return (
    <>
      <Announcer turns={turns} />
      {loaded.error !== null && items.length === 0 ? <div className="p-6"><ErrorNote error={loaded.error} onRetry={loaded.refetch} /></div> : null}
      {loaded.isLoading ? <Skeleton rows={4} className="mx-auto w-full max-w-[760px] flex-1 p-6" /> : null}
      {!loaded.isLoading && rows.length === 0 && loaded.error === null ? <Welcome agents={agents} agent={agent} onSay={writes ? send : undefined} /> : null}
      {rows.length === 0 ? null : <MessageList rows={rows} row={row} hasOlder={loaded.history.older !== undefined} loadingOlder={loaded.loadingOlder} onOlder={loaded.loadOlder} sent={mine.length} head={<p className="pt-6 text-center text-sm text-muted">{t("begin")}</p>} />}
      {loaded.olderError === undefined ? null : <div className="mx-auto w-full max-w-[760px] px-6"><ErrorNote error={loaded.olderError} onRetry={loaded.loadOlder} /></div>}
      <div className="mx-auto w-full max-w-[760px] shrink-0 px-6 pt-2 pb-4 max-sm:px-3 max-sm:pb-3">
        {writes ? (
          <>
            <ModelHint agents={agents} agent={agent} />
            <Composer place={place} agentName={agents.name(agent)} mode={modeOf(agents, agent)} active={ofAgent} stopping={stop.stopping} onSend={send} onStop={active !== undefined && may("runs.control") ? stop.stop : undefined} />
          </>
        ) : <p className="rounded-lg border border-line bg-surface p-3 text-center text-muted">{t(may("runs.create") ? "botOnly" : "readOnly")}</p>}
      </div>
    </>
  );
}

function modeOf(agents: Agents, agent: string): Mode {
  const mode = agents.find(agent)?.concurrency;
  return mode !== undefined && MODES.includes(mode) ? (mode as Mode) : "queue";
}

/** Stops the active run; until the run has ended, a second press does nothing. */
function useStop(runId: string | undefined): { stop: () => void; stopping: boolean } {
  const notes = useNotes();
  const [stopped, setStopped] = useState<string>();
  const mutation = useMutation({
    mutationFn: (id: string) => cancelRun({ path: { run_id: id } }),
    onError: (error) => {
      setStopped(undefined);
      notes.failed(error);
    },
  });
  return {
    stopping: runId !== undefined && stopped === runId,
    stop: () => {
      if (runId === undefined || stopped === runId) return;
      setStopped(runId);
      mutation.mutate(runId);
    },
  };
}

function OutgoingMessage({ message, outbox }: { message: Outgoing; outbox: Outbox }): ReactNode {
  const { state, problem, outcome } = message;
  const isHeld = state === "waiting" || state === "rejected" || state === "failed";
  const caption = isHeld ? <Held message={message} outbox={outbox} /> : <OnItsWay outcome={outcome} />;
  return <div className="mx-auto max-w-[760px] px-6 py-4 max-sm:px-4"><UserMessage text={message.text} files={message.files} caption={caption} faded={!isHeld || problem === undefined} /></div>;
}

function OnItsWay({ outcome }: { outcome: Outcome | undefined }): ReactNode {
  const t = useText(chatTexts);
  if (outcome === undefined) return <><LoaderCircle aria-hidden className="animate-spin" />{t("sending")}</>;
  return outcome === "absorbed" ? <><CornerDownRight aria-hidden />{t("absorbed.queued")}</> : t("started");
}

const HELD = { waiting: { Icon: CloudOff, tone: "text-wait" }, rejected: { Icon: Ban, tone: "text-fail" }, failed: { Icon: CircleAlert, tone: "text-fail" } } as const;

/** A message that the host has not taken: why, and what happens next. */
function Held({ message, outbox }: { message: Outgoing; outbox: Outbox }): ReactNode {
  const t = useText(chatTexts);
  const { state, problem } = message;
  const error = useErrorText(problem === undefined ? undefined : new ApiError(problem, 0));
  if (state === "sending" || state === "sent") return null;
  const { Icon, tone } = HELD[state];
  const why = problem === undefined ? t(state) : t("held", { what: t(state), why: error.message });
  return (
    <div className="flex flex-col items-end gap-1">
      <p role={state === "waiting" ? "status" : "alert"} className="text-right">
        <Icon aria-hidden className={cn("mr-1.5 inline align-text-bottom", tone)} />
        <span className={tone}>{why}</span> {state === "waiting" ? t("byItself") : problem === undefined ? "" : error.hint}
      </p>
      <span className="flex gap-1.5">
        <Button size="sm" onClick={() => outbox.retry(message.id)}>{t("again")}</Button>
        <Button size="sm" kind="ghost" onClick={() => outbox.discard(message.id)}>{t("discard")}</Button>
      </span>
    </div>
  );
}

function ModelHint({ agents, agent }: { agents: Agents; agent: string }): ReactNode {
  const t = useText(chatTexts);
  const { may } = useSession();
  if (agents.hasModel || agents.isLoading || (agent !== "demo" && agent !== "echo" && agent !== "assistant") || !may("models.write")) return null;
  return (
    <p className="mb-2 flex flex-wrap items-center gap-x-2 px-1 text-sm text-muted">
      {t("demoHint")}
      <Link to="/models" className="text-accent-text underline underline-offset-2">{t("addModel")}</Link>
    </p>
  );
}

/** Tells a screen reader when an answer is complete or needs the person. Words as they stream would be too many. */
function Announcer({ turns }: { turns: readonly Turn[] }): ReactNode {
  const t = useText(chatTexts);
  const last = turns.at(-1)?.run;
  const before = useRef<string>(undefined);
  const [said, setSaid] = useState("");
  const status = last?.status;
  useEffect(() => {
    if (before.current !== undefined && before.current !== status) setSaid(status === "waiting" ? t("needsYou") : last !== undefined && hasEnded(last) ? t("answered") : "");
    before.current = status;
  }, [status, last, t]);
  return <p role="status" className="sr-only">{said}</p>;
}
