import type { AgentRun, TranscriptItem } from "@bollard/client";
import { describe, expect, it } from "vitest";
import { withNewest, type History } from "./history";
import { blocksOf, turnsOf, waitsInLine } from "./turns";

const item = (seq: number, event: string, role: string, content = "", extra: Partial<TranscriptItem> = {}): TranscriptItem => ({ transcript_id: `t_${seq}`, seq, event_id: event, role, content, created_at: seq, ...extra });
const run = (event: string, status: string, at: number, finished?: number): AgentRun => ({
  run_id: `run_${event}`, event_id: event, agent_id: "demo", binding_id: "", runner_id: "", workspace_id: "", status, epoch: 1, grant_sha256: "", created_at: at, updated_at: finished ?? at,
  finished_at: finished ?? null,
});
const shape = (turns: ReturnType<typeof turnsOf>): string[] => turns.map((turn) => `${turn.eventId}: ${[turn.user, ...turn.items].map((each) => each?.content ?? "-").join(", ")}`);

describe("turns", () => {
  it("hold a message and its answer", () => {
    expect(shape(turnsOf([item(1, "a", "user", "hi"), item(2, "a", "assistant", "hello"), item(3, "b", "user", "again")], [run("b", "queued", 3), run("a", "completed", 1, 2)]))).toEqual(["a: hi, hello", "b: again"]);
  });
  it("take in the messages that went into their run", () => {
    const items = [item(1, "a", "user", "paint"), item(2, "s", "user", "blue"), item(3, "a", "assistant", "done")];
    expect(shape(turnsOf(items, [run("a", "completed", 1, 3)]))).toEqual(["a: paint, blue, done"]);
  });
  it("leave a message with a run of its own, or after the end, alone", () => {
    const items = [item(1, "a", "user", "one"), item(2, "b", "user", "two"), item(3, "a", "assistant", "1"), item(5, "c", "user", "three")];
    expect(shape(turnsOf(items, [run("b", "queued", 2), run("a", "completed", 1, 3)]))).toEqual(["a: one, 1", "b: two", "c: three"]);
  });
  it("show runs of events without a message", () => {
    expect(shape(turnsOf([item(1, "a", "user", "hi")], [run("tick", "running", 4), run("a", "completed", 1, 2)]))).toEqual(["a: hi", "tick: -"]);
  });
});

describe("a run waits in line", () => {
  const items = [item(1, "a", "user", "one"), item(2, "b", "user", "two")];
  const turns = turnsOf(items, [run("a", "running", 1), run("b", "queued", 2)]);
  it("while an earlier one is active", () => {
    expect(turns.map((_, index) => waitsInLine(turns, index, (each) => each.status === "running"))).toEqual([false, true]);
  });
  it("no longer when the earlier one has ended, and never as the first", () => {
    expect(turns.map((_, index) => waitsInLine(turns, index, () => false))).toEqual([false, false]);
    expect(waitsInLine(turnsOf([item(1, "a", "user", "one")], [run("a", "queued", 1)]), 0, () => true)).toBe(false);
  });
});

describe("blocks of the transcript", () => {
  it("join a call and its result", () => {
    const calls = { role: "assistant", content: "", tool_calls: [{ id: "1", function: { name: "now", arguments: '{"zone":"UTC"}' } }] };
    const blocks = blocksOf([item(1, "a", "assistant", "", { content_json: calls }), item(2, "a", "tool", "noon", { content_json: { tool_call_id: "1" } }), item(3, "a", "assistant", "It is noon.")]);
    expect(blocks).toMatchObject([{ kind: "call", call: { name: "now", arguments: { zone: "UTC" }, output: "noon", status: "completed" } }, { kind: "text", text: "It is noon." }]);
  });
});

describe("history", () => {
  const history = (from: number, to: number, older?: string): History => ({ items: Array.from({ length: to - from + 1 }, (_, index) => item(from + index, "a", "user")), runs: [], older, olderRuns: undefined });
  it("keeps older pages when the newest page overlaps", () => {
    const next = withNewest(history(1, 60, "old"), history(20, 70, "newer"));
    expect([next.items.length, next.older]).toEqual([70, "old"]);
  });
  it("starts anew where the newest page leaves a hole", () => {
    const next = withNewest(history(1, 60, "old"), history(80, 130, "newer"));
    expect([next.items.length, next.older]).toEqual([51, "newer"]);
  });
});
