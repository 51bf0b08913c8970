/** Messages grouped into turns: what a person said, and what the run answered. Pure. */
import type { AgentRun, TranscriptItem } from "@bollard/client";
import { contentText, list, object, text } from "@/parts/record-values";
import type { Block, Call } from "@/parts/run-block";

export interface Turn {
  /** The event that began it. */
  eventId: string;
  at: number;
  user: TranscriptItem | undefined;
  run: AgentRun | undefined;
  /** What followed: answers, tool results, and messages that went into the run. */
  items: TranscriptItem[];
}

const ENDED = new Set(["completed", "failed", "cancelled", "timeout"]);

export function hasEnded(run: AgentRun): boolean {
  return ENDED.has(run.status);
}

export function turnsOf(items: readonly TranscriptItem[], runs: readonly AgentRun[]): Turn[] {
  const runOf = new Map(runs.map((run) => [run.event_id, run]));
  const turns = new Map<string, Turn>();
  for (const item of items) {
    const isSteering = item.role === "user" && !runOf.has(item.event_id);
    const turn = turns.get(item.event_id) ?? (isSteering ? lastOf(turns.values(), (each) => tookIn(each.run, item)) : undefined);
    if (turn !== undefined) {
      turn.items.push(item);
    } else {
      const user = item.role === "user" ? item : undefined;
      turns.set(item.event_id, { eventId: item.event_id, at: item.created_at ?? 0, user, run: runOf.get(item.event_id), items: user === undefined ? [item] : [] });
    }
  }
  const first = items[0]?.created_at ?? 0;
  for (const run of runs) {
    // A run for an event without a message, such as a schedule, or one that has not said anything yet.
    if (!turns.has(run.event_id) && run.created_at >= first) turns.set(run.event_id, { eventId: run.event_id, at: run.created_at, user: undefined, run, items: [] });
  }
  return [...turns.values()].sort((a, b) => a.at - b.at);
}

function lastOf(turns: Iterable<Turn>, isIt: (turn: Turn) => boolean): Turn | undefined {
  let found: Turn | undefined;
  for (const turn of turns) if (isIt(turn)) found = turn;
  return found;
}

/** Whether a message without a run of its own can have gone into this run. */
function tookIn(run: AgentRun | undefined, item: TranscriptItem): boolean {
  if (run === undefined || run.status === "queued" || run.created_at > (item.created_at ?? 0)) return false;
  return !hasEnded(run) || (item.created_at ?? 0) <= (run.finished_at ?? run.updated_at);
}

/** Whether the run of a turn waits for the run of an earlier one. `isActive` knows more of a run than its last listed status. */
export function waitsInLine(turns: readonly Turn[], index: number, isActive: (run: AgentRun) => boolean): boolean {
  const run = turns[index]?.run;
  return run?.status === "queued" && turns.slice(0, index).some((turn) => turn.run !== undefined && isActive(turn.run));
}

/** The blocks of a turn as far as the transcript knows them: no durations, approvals or thinking. */
export function blocksOf(items: readonly TranscriptItem[]): Block[] {
  const blocks: Block[] = [];
  for (const item of items) {
    const seq = item.seq ?? 0;
    const content = object(item.content_json);
    if (item.role === "user") {
      blocks.push({ kind: "steering", key: item.transcript_id, seq, eventId: item.event_id, status: "acknowledged", redispatch: false });
    } else if (item.role === "tool") {
      finishCall(blocks, text(content.tool_call_id), item);
    } else {
      const said = item.content ?? contentText(content.content);
      if (said !== "") blocks.push({ kind: "text", key: item.transcript_id, seq, messageId: undefined, text: said, open: false, sources: [] });
      for (const called of list(content.tool_calls)) blocks.push({ kind: "call", key: `${item.transcript_id}-${blocks.length}`, seq, call: callOf(object(called)) });
    }
  }
  return blocks;
}

function callOf(called: Record<string, unknown>): Call {
  const given = object(called.function);
  const id = text(called.id) ?? "";
  return {
    id, name: text(given.name) ?? id, capability: undefined, arguments: parsed(text(given.arguments)), status: "started", isError: false, output: undefined, error: undefined,
    startedAt: undefined, durationMs: undefined,
  };
}

function finishCall(blocks: Block[], id: string | undefined, item: TranscriptItem): void {
  const at = blocks.findIndex((block) => block.kind === "call" && block.call.id === id);
  const found = blocks[at];
  if (found?.kind === "call") blocks[at] = { ...found, call: { ...found.call, status: "completed", output: item.content ?? "" } };
}

function parsed(json: string | undefined): unknown {
  try {
    return json === undefined ? undefined : JSON.parse(json);
  } catch {
    return json;
  }
}
