import type { AgentRunRecord } from "@bollard/client";
import { describe, expect, test } from "vitest";
import { place, rowsOf, ticks } from "./flatten";
import { dataOf, type Span } from "./span";
import { timelineOf, type Timeline } from "./timeline";

let seq = 0;
function record(type: string, data: AgentRunRecord["data"], at: number, over: Partial<AgentRunRecord> = {}): AgentRunRecord {
  seq = over.seq ?? seq + 1;
  return { run_id: "run_1", seq, epoch: 1, type, data, observed: true, created_at: at, ...over };
}
function begin(): AgentRunRecord[] {
  seq = 0;
  return [record("run.created", { binding_id: "direct:clerk" }, 100), record("grant.issued", {}, 100), record("run.started", {}, 100.5)];
}
function find(timeline: Timeline, id: string): Span {
  const found = rowsOf([timeline.run], new Set()).find((row) => row.span.id === id);
  if (found === undefined) throw new Error(`no span ${id}`);
  return found.span;
}
const kinds = (timeline: Timeline): string[] => rowsOf([timeline.run], new Set()).map((row) => row.span.kind);

describe("timeline", () => {
  test("a run begins with its route, its grant and its start, and ends once", () => {
    const timeline = timelineOf([...begin(), record("run.completed", { finish_reason: "stop" }, 101), record("run.ended", { status: "completed" }, 101.5)]);
    expect(kinds(timeline)).toEqual(["run", "route", "grant", "start", "end"]);
    expect(timeline.run).toMatchObject({ start: 100, end: 101.5, state: "done" });
    expect(find(timeline, "start")).toMatchObject({ start: 100, end: 100.5 });
    expect(timeline.position).toBe("1.5");
  });

  test("a call that needs consent contains its approval, and both span the wait", () => {
    const timeline = timelineOf([
      ...begin(),
      record("run.waiting", { approval_id: "apr_1" }, 102),
      record("approval.requested", { approval_id: "apr_1", call_id: "c1", name: "send_letter", arguments: { to: "ann" } }, 102),
      record("approval.granted", { approval_id: "apr_1", call_id: "c1", decision: "allow_once", by: "ann" }, 110),
      record("run.resumed", {}, 110),
      record("approval.used", { approval_id: "apr_1", call_id: "c1" }, 110),
      record("action.started", { call_id: "c1", name: "send_letter", kind: "mcp" }, 110),
      record("action.completed", { call_id: "c1", capability: "mcp:letters/send_letter" }, 111),
      record("api.called", { action: "tools.call", outcome: "ok", ms: 9_000, resource: "send_letter" }, 111),
      record("message.completed", { message: { role: "tool", content: "sent", tool_call_id: "c1" } }, 111),
    ]);
    const call = find(timeline, "call:c1");
    expect(call).toMatchObject({ kind: "tool", name: "send_letter", start: 102, end: 111, state: "done" });
    expect(call.children.map((span) => span.id)).toEqual(["approval:apr_1"]);
    expect(call.records.map((each) => each.type)).toEqual(["action.started", "action.completed", "api.called", "message.completed"]);
    expect(find(timeline, "approval:apr_1")).toMatchObject({ start: 102, end: 110, state: "done" });
    expect(find(timeline, "approval:apr_1").records[0]?.type).toBe("run.waiting");
    expect(timeline.run.state).toBe("open");
  });

  test("a run that waits says so until it resumes", () => {
    const timeline = timelineOf([...begin(), record("run.waiting", { question_id: "q1" }, 101), record("question.asked", { question_id: "q1", question: "Which one?" }, 101)]);
    expect(timeline.run.state).toBe("waiting");
    expect(find(timeline, "question:q1")).toMatchObject({ name: "Which one?", end: undefined, state: "waiting" });
  });

  test("a denied approval fails its call", () => {
    const timeline = timelineOf([
      ...begin(),
      record("approval.requested", { approval_id: "a", call_id: "c", name: "exec" }, 101),
      record("approval.denied", { approval_id: "a", call_id: "c", by: "li" }, 102),
    ]);
    expect(find(timeline, "approval:a").state).toBe("failed");
    expect(find(timeline, "call:c").state).toBe("failed");
  });

  test("a model call begins when it was made, and the next one after a failure is its fallback", () => {
    const timeline = timelineOf([
      ...begin(),
      record("model.called", { model_id: "big", status: "failed", reason: "rate_limited", latency_ms: 500 }, 102),
      record("api.called", { action: "models.stream", outcome: "rate_limited", resource: "big" }, 102),
      record("model.called", { model_id: "small", status: "completed", latency_ms: 1_000 }, 104),
      record("api.called", { action: "models.stream", outcome: "ok", resource: "small" }, 104),
    ]);
    expect(find(timeline, "model:4")).toMatchObject({ start: 101.5, end: 102, state: "failed" });
    expect(find(timeline, "model:6")).toMatchObject({ start: 103, state: "done", fallbackOf: "big" });
    expect(kinds(timeline)).not.toContain("call");
  });

  test("holes in the numbers are the increments of the next message: one bar", () => {
    const timeline = timelineOf([...begin(), record("message.completed", { message: { role: "assistant", content: "hello" }, message_id: "m" }, 103, { seq: 24 })]);
    expect(find(timeline, "message:m")).toMatchObject({ deltas: 20, start: 100.5, end: 103, text: "hello" });
  });

  test("increments of a stream grow one bar and give way to the whole message", () => {
    const deltas = ["he", "ll", "o"].map((content, index) => record("message.delta", { chunk: { content }, message_id: "m" }, 101 + index, { seq: 4 + index }));
    const records = [...begin(), ...deltas];
    const open = find(timelineOf(records), "message:m");
    expect(open).toMatchObject({ deltas: 3, start: 101, end: undefined, state: "open", text: "hello", records: [] });
    const done = find(timelineOf([...records, record("message.completed", { message: { role: "assistant", content: "hello!" }, message_id: "m" }, 105, { seq: 7 })]), "message:m");
    expect(done).toMatchObject({ deltas: 3, end: 105, state: "done", text: "hello!" });
  });

  test("a message that asks for tools is named after them", () => {
    const message = { role: "assistant", content: "", tool_calls: [{ id: "c", function: { name: "clock", arguments: "{}" } }] };
    expect(find(timelineOf([...begin(), record("message.completed", { message, message_id: "m" }, 101)]), "message:m").name).toBe("clock");
  });

  test("a call of another agent is a child run", () => {
    const timeline = timelineOf([
      ...begin(),
      record("action.started", { call_id: "c", name: "agent:echo", kind: "agent" }, 101),
      record("action.completed", { call_id: "c", structured: { run_id: "run_2" } }, 102),
      record("api.called", { action: "agents.call", outcome: "ok", resource: "echo" }, 102),
    ]);
    expect(find(timeline, "call:c")).toMatchObject({ kind: "child", state: "done" });
    expect(dataOf(find(timeline, "call:c"), "action.completed")?.structured).toEqual({ run_id: "run_2" });
  });

  test("a steering message lasts from its claim to its end", () => {
    const timeline = timelineOf([
      ...begin(),
      record("steering.queued", { event_id: "e" }, 101),
      record("steering.injected", { event_id: "e" }, 102),
      record("steering.dropped", { event_id: "e", reason: "run_failed" }, 103),
    ]);
    expect(find(timeline, "steering:e")).toMatchObject({ start: 101, end: 103, state: "cancelled" });
  });

  test("what is open at the end of a run ends with it", () => {
    const timeline = timelineOf([...begin(), record("action.started", { call_id: "c", name: "slow" }, 101), record("run.cancelled", { reason: "cancelled" }, 102), record("run.ended", { status: "cancelled", code: "cancelled" }, 103)]);
    expect(find(timeline, "call:c")).toMatchObject({ end: 103, state: "cancelled" });
    expect(timeline.run.state).toBe("cancelled");
  });

  test("unknown types and broken data are shown, not fatal", () => {
    const timeline = timelineOf([...begin(), record("moon.rose", { height: 3 }, 101), record("odd", {}, 101), record("approval.requested", { call_id: 7, name: null }, 101), record("message.completed", { message: "text" }, 101), record("model.called", {}, 101)]);
    expect(kinds(timeline)).toEqual(["run", "route", "grant", "start", "other", "other", "approval", "message", "model"]);
    expect(find(timeline, "other:4").name).toBe("moon.rose");
  });

  test("a record that comes twice counts once", () => {
    const records = begin();
    expect(timelineOf([...records, ...records]).size).toBe(3);
  });
});

describe("rows", () => {
  test("collapsed spans hide their children", () => {
    const { run } = timelineOf(begin());
    expect(rowsOf([run], new Set())).toHaveLength(4);
    expect(rowsOf([run], new Set(["run"]))).toMatchObject([{ expanded: false, position: 1, siblings: 1 }]);
  });

  test("a bar lies on the axis; one that is open reaches the end", () => {
    expect(place({ start: 2, end: 3 }, 0, 10)).toEqual({ left: 20, width: 10 });
    expect(place({ start: 5, end: undefined }, 0, 10)).toEqual({ left: 50, width: 50 });
    expect(place({ start: -5, end: 20 }, 0, 10)).toEqual({ left: 0, width: 100 });
    expect(place({ start: 1, end: 1 }, 1, 1)).toEqual({ left: 0, width: 0 });
  });

  test("ticks are round and few", () => {
    expect(ticks(57_000, 5)).toEqual([0, 20_000, 40_000]);
    expect(ticks(42, 5)).toEqual([0, 10, 20, 30, 40]);
    expect(ticks(292_000, 3)).toEqual([0, 120_000, 240_000]);
    expect(ticks(2 * 365 * 86_400_000 * 10, 5)).toHaveLength(6);
    expect(ticks(0, 5)).toEqual([0]);
  });
});
