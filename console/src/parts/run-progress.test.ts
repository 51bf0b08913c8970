import { describe, expect, it } from "vitest";
import type { Block, RunRecord } from "./run-block";
import { advance, NOTHING_YET } from "./run-progress";

let seq = 0;
function record(type: string, data: Record<string, unknown> = {}, at = seq + 1): RunRecord {
  seq = at;
  return { seq, epoch: 1, type, data, created_at: 100 + seq };
}
function play(...records: [string, Record<string, unknown>?][]): ReturnType<typeof advance> {
  seq = 0;
  return advance(NOTHING_YET, records.map(([type, data]) => record(type, data)));
}
const delta = (content: string, extra: Record<string, unknown> = {}): [string, Record<string, unknown>] => ["message.delta", { chunk: { role: "assistant", content, ...extra } }];
const kinds = (blocks: readonly Block[]): string[] => blocks.map((block) => block.kind);
const texts = (blocks: readonly Block[]): string[] => blocks.flatMap((block) => (block.kind === "text" || block.kind === "thinking" ? [`${block.kind}: ${block.text}`] : []));

describe("text", () => {
  it("joins deltas, and the whole message changes nothing when it is the same", () => {
    const before = play(["run.started"], delta("Hel"), delta("lo"));
    expect(texts(before.blocks)).toEqual(["text: Hello"]);
    const after = advance(before, [record("message.completed", { message: { role: "assistant", content: "Hello" } })]);
    expect(texts(after.blocks)).toEqual(["text: Hello"]);
    expect(after.blocks[0]).toMatchObject({ open: false, key: before.blocks[0]?.key });
  });
  it("is replaced by the whole message where that differs", () => {
    expect(texts(play(delta("Helo"), ["message.completed", { message: { role: "assistant", content: "Hello" } }]).blocks)).toEqual(["text: Hello"]);
  });
  it("keeps its places around a tool call", () => {
    const { blocks } = play(delta("a"), ["action.started", { call_id: "1", name: "now" }], delta("b"), ["message.completed", { message: { role: "assistant", content: "ab" } }]);
    expect(kinds(blocks)).toEqual(["text", "call", "text"]);
    expect(texts(blocks)).toEqual(["text: a", "text: b"]);
  });
  it("separates messages by their ids", () => {
    const of = (id: string, content: string): [string, Record<string, unknown>] => ["message.delta", { chunk: { content }, message_id: id }];
    expect(texts(play(of("1", "one"), of("2", "two")).blocks)).toEqual(["text: one", "text: two"]);
  });
  it("shows a message of a runner that does not stream, also in content elements", () => {
    expect(texts(play(["message.completed", { message: { role: "assistant", content: [{ type: "text", text: "whole" }] } }]).blocks)).toEqual(["text: whole"]);
  });
  it("has the sources that the answer cites", () => {
    const cited = { role: "assistant", content: "yes [1]", metadata: { citations: [{ id: 1, kb_id: "manual", name: "Guide", source: "guide.pdf" }, { broken: true }] } };
    expect(play(delta("yes [1]"), ["message.completed", { message: cited }]).blocks[0]).toMatchObject({ sources: [{ id: 1, name: "Guide", knowledgeBase: "manual", source: "guide.pdf" }] });
  });
  it("takes each record once: a repeated or older one changes nothing", () => {
    const before = play(delta("one "), delta("two"));
    expect(advance(before, [{ seq: 2, epoch: 1, type: "message.delta", data: { chunk: { content: "two" } }, created_at: 0 }])).toBe(before);
    expect(texts(advance(before, [{ seq: 1, epoch: 2, type: "message.delta", data: { chunk: { content: "!" } }, created_at: 0 }]).blocks)).toEqual(["text: one two!"]);
  });
});

describe("thinking", () => {
  it("is a block of its own before the answer", () => {
    const { blocks } = play(delta("", { reasoning: "hm" }), delta("", { reasoning: "…" }), delta("42"), ["message.completed", { message: { role: "assistant", content: "42", reasoning: "hm…" } }]);
    expect(texts(blocks)).toEqual(["thinking: hm…", "text: 42"]);
  });
});

describe("tool calls", () => {
  it("have arguments, output and duration", () => {
    const { blocks } = play(
      ["action.started", { call_id: "1", name: "calculate", capability: "tool:builtin/calculate", arguments: { expression: "6/2" } }],
      ["action.completed", { call_id: "1", content: [{ type: "text", text: "3" }], structured: { value: "3" }, duration_ms: 0.2 }],
      ["message.completed", { message: { role: "tool", content: "3", tool_call_id: "1", name: "calculate" } }],
    );
    expect(blocks).toHaveLength(1);
    expect(blocks[0]).toMatchObject({ call: { name: "calculate", arguments: { expression: "6/2" }, output: "3", durationMs: 0.2, status: "completed", isError: false } });
  });
  it("that were refused before they began have the reason", () => {
    const { blocks } = play(["action.rejected", { call_id: "1", name: "exec", code: "approval_denied", message: "a person denied it", details: { reason: "denied" } }]);
    expect(blocks[0]).toMatchObject({ call: { name: "exec", status: "rejected", error: { code: "approval_denied", message: "a person denied it" } } });
  });
  it("of the runner's own tools come from its telemetry", () => {
    const { blocks } = play(["tool.call.started", { tool_call_id: "x", tool_name: "own", parameters: { a: 1 } }], ["tool.call.completed", { tool_call_id: "x", tool_name: "own", error: "broken" }]);
    expect(blocks[0]).toMatchObject({ call: { name: "own", arguments: { a: 1 }, isError: true, output: "broken", durationMs: 1000 } });
  });
});

describe("requests to people", () => {
  it("follows an approval to its decision", () => {
    const { blocks, status } = play(["run.waiting"], ["approval.requested", { approval_id: "apr", name: "exec" }]);
    expect([blocks[0]?.kind, status]).toEqual(["approval", "waiting"]);
    const decided = play(["approval.requested", { approval_id: "apr", name: "exec" }], ["approval.granted", { approval_id: "apr", decision: "allow_once", by: "ann" }], ["run.resumed"], ["approval.used", { approval_id: "apr" }]);
    expect(decided.blocks[0]).toMatchObject({ status: "used", by: "ann", decision: "allow_once" });
    expect(decided.status).toBe("running");
  });
  it("follows a question to its answer", () => {
    const { blocks } = play(["question.asked", { question_id: "q", question: "Which?", choices: ["a", "b"] }], ["question.answered", { question_id: "q", answer: "b" }]);
    expect(blocks[0]).toMatchObject({ question: "Which?", choices: ["a", "b"], status: "answered", answer: "b" });
  });
});

describe("steering", () => {
  it("says what became of a message", () => {
    const { blocks } = play(["steering.queued", { event_id: "e" }], ["steering.injected", { event_id: "e" }], ["steering.acknowledged", { event_id: "e" }]);
    expect(blocks[0]).toMatchObject({ eventId: "e", status: "acknowledged" });
    expect(play(["steering.queued", { event_id: "e" }], ["steering.dropped", { event_id: "e", redispatch: true }]).blocks[0]).toMatchObject({ status: "dropped", redispatch: true });
  });
});

describe("the run", () => {
  it("ends with its state, and closes what was open", () => {
    const { blocks, end, status, endedAt } = play(["run.created", { agent_id: "demo" }], ["run.started"], delta("half"), ["run.ended", { status: "failed", code: "runner.error", error: "broken" }]);
    expect(end).toEqual({ status: "failed", code: "runner.error", error: "broken", details: {} });
    expect([status, endedAt]).toEqual(["failed", 104]);
    expect(blocks[0]).toMatchObject({ open: false });
  });
  it("keeps the files that it made, each once", () => {
    const file = { artifact_id: "art", name: "a.txt", mime_type: "text/plain", size_bytes: 3 };
    const { blocks } = play(["artifact.created", file], ["message.completed", { message: { role: "assistant", content: "", artifact_refs: [file] } }]);
    expect(blocks).toMatchObject([{ kind: "file", file: { id: "art", name: "a.txt", mimeType: "text/plain", bytes: 3 } }]);
  });
  it("ignores records that it does not know, and data of other shapes", () => {
    expect(play(["future.thing", { a: 1 }], ["message.delta", { chunk: 7 }], ["action.started", {}], ["approval.granted", {}]).blocks).toEqual([]);
  });
  it("takes 10 000 deltas in a moment", () => {
    const records = Array.from({ length: 10_000 }, (_, index): RunRecord => ({ seq: index + 1, epoch: 1, type: "message.delta", data: { chunk: { content: "ab " } }, created_at: 0 }));
    const began = performance.now();
    expect(texts(advance(NOTHING_YET, records).blocks)[0]).toHaveLength(30_006);
    expect(performance.now() - began).toBeLessThan(500);
  });
});
