import type { AgentRunRecord } from "@bollard/client";
import { contentText, count, list, makeSpan, object, text, type Data, type Span, type SpanKind, type SpanState } from "./span";

/** A message that is still written keeps this much of its text; the whole is in its last record. */
const LIVE_CHARACTERS = 16_000;
const ENDS: Record<string, SpanState> = { completed: "done", failed: "failed", timeout: "failed", cancelled: "cancelled" };
const OUTCOMES: Record<string, SpanState> = { started: "open", completed: "done", failed: "failed", rejected: "failed", unknown: "unknown" };
const CALLS = new Set(["tools.call", "agents.call", "platform.request"]);

/** The spans of these records. */
export function timelineOf(records: Iterable<AgentRunRecord>): Timeline {
  const timeline = new Timeline();
  for (const record of records) timeline.add(record);
  return timeline;
}

/**
 * Folds the records of a run, in order, into spans. Records that it does not know become spans of their own. Deltas
 * become the bar of their message: from a stream one by one, from pages as holes in the numbers.
 */
export class Timeline {
  readonly run = makeSpan("run", "run", "", 0, { end: undefined, state: "open" });
  /** The newest position, for the stream that continues after the pages. */
  position: string | undefined;
  size = 0;
  private last = 0;
  private lastAt = 0;
  private holes = 0;
  private holesFrom = 0;
  private readonly byId = new Map<string, Span>();
  /** Calls whose `api.called` has not come yet, by what they call. */
  private readonly unbilled = new Map<string, Span>();
  private waiting: Span | undefined;
  private parked: AgentRunRecord | undefined;
  private failedModel: Span | undefined;
  private message: Span | undefined;

  get ended(): boolean {
    return this.run.end !== undefined;
  }

  /** The newest time that a record has. */
  get until(): number {
    return this.lastAt;
  }

  add(record: AgentRunRecord): void {
    if (record.seq <= this.last) return; // a page and the stream may overlap
    if (record.type !== "message.delta" && record.seq > this.last + 1 && this.last > 0) {
      if (this.holes === 0) this.holesFrom = this.lastAt;
      this.holes += record.seq - this.last - 1;
    }
    this.last = record.seq;
    this.lastAt = Math.max(this.lastAt, record.created_at);
    this.position = `${record.epoch}.${record.seq}`;
    this.size += 1;
    if (this.run.start === 0) this.run.start = record.created_at;
    this.place(record);
  }

  private place(record: AgentRunRecord): void {
    const { type, data } = record;
    const dot = type.lastIndexOf(".");
    const [family, verb] = [type.slice(0, dot), type.slice(dot + 1)];
    if (family === "message") this.ofMessage(record, verb);
    else if (family === "run") this.ofRun(record, verb);
    else if (family === "action" && verb !== "requested") this.ofAction(record, verb);
    else if (family === "tool.call") this.ofToolCall(record, verb);
    else if (family === "approval") this.ofApproval(record, verb);
    else if (family === "question") this.ofQuestion(record, verb);
    else if (family === "steering") this.ofSteering(record, verb);
    else if (family === "api") this.ofCall(record, verb);
    else if (type === "model.called") this.ofModel(record);
    else if (type === "grant.issued") this.put("grant", "grant", "", record);
    else if (type === "grant.revoked") this.note("revoked", text(data.by) ?? "", record, "cancelled");
    else if (family === "result") this.note("problem", text(data.problem) ?? verb, record, "failed");
    else if (family === "state" || family === "storage") this.note("state", text(data.key) ?? "", record, verb === "refused" ? "failed" : "done");
    else if (family === "artifact") this.note("artifact", text(data.name) ?? text(data.artifact_id) ?? "", record);
    else this.note("other", type, record);
  }

  private ofRun(record: AgentRunRecord, verb: string): void {
    const { data } = record;
    if (verb === "created") this.put("route", "route", text(data.binding_id) ?? "", record);
    else if (verb === "started" || verb === "claimed") this.started(record);
    else if (verb === "waiting") this.waits(record);
    else if (verb === "resumed") this.resumes(record);
    else if (verb === "cancelled") this.note("cancel", text(data.reason) ?? "", record, "cancelled");
    else if (verb === "completed" || verb === "failed" || verb === "ended") this.ends(record, verb);
    else this.note("other", record.type, record);
  }

  private started(record: AgentRunRecord): void {
    const start = this.put("start", "start", "", record);
    start.start = this.run.start;
    start.end = record.created_at;
  }

  private waits(record: AgentRunRecord): void {
    this.run.state = "waiting";
    const { approval_id: approval, question_id: question } = record.data;
    this.waiting = this.byId.get(text(approval) === undefined ? `question:${text(question) ?? ""}` : `approval:${text(approval) ?? ""}`);
    if (this.waiting === undefined) this.parked = record;
    else this.waiting.records.push(record);
  }

  /** The request for which the run waits has its own record, which comes after that of the run. */
  private park(span: Span): void {
    if (this.parked === undefined) return;
    span.records.unshift(this.parked);
    this.parked = undefined;
    this.waiting = span;
  }

  private resumes(record: AgentRunRecord): void {
    if (this.run.state === "waiting") this.run.state = "open";
    (this.waiting ?? this.run).records.push(record);
    this.waiting = undefined;
    this.parked = undefined;
  }

  private ends(record: AgentRunRecord, verb: string): void {
    const end = this.put("end", "end", "", record);
    end.end = record.created_at;
    end.state = verb === "ended" ? ENDS[text(record.data.status) ?? ""] ?? "unknown" : ENDS[verb] ?? "done";
    end.name = text(record.data.code) ?? end.name;
    if (verb !== "ended") return;
    this.run.state = end.state;
    this.run.end = record.created_at;
    this.run.deltas = this.holes; // of messages that retention dropped
    for (const span of this.byId.values()) {
      if (span.end !== undefined) continue;
      span.end = record.created_at; // nothing goes on after the end
      if (span.state === "open" || span.state === "waiting") span.state = end.state === "done" ? "done" : "cancelled";
    }
  }

  private ofModel(record: AgentRunRecord): void {
    const { data } = record;
    const status = text(data.status);
    const name = text(data.model_id) ?? text(data.model) ?? "";
    const span = this.note("model", name, record, status === "completed" ? "done" : status === "cancelled" ? "cancelled" : "failed");
    span.start = Math.max(this.run.start, record.created_at - (count(data.latency_ms) ?? 0) / 1_000);
    if (this.failedModel !== undefined) span.fallbackOf = this.failedModel.name;
    this.failedModel = span.state === "failed" ? span : undefined;
    this.unbilled.set(`model ${name}`, span);
  }

  private ofAction(record: AgentRunRecord, verb: string): void {
    const { data } = record;
    const known = this.byId.get(`call:${text(data.call_id) ?? ""}`);
    const name = text(data.name) ?? known?.name ?? text(data.capability) ?? "";
    const kind: SpanKind = known?.kind === "child" || text(data.kind) === "agent" ? "child" : "tool";
    const span = this.open(`call:${text(data.call_id) ?? record.seq}`, kind, name, record, OUTCOMES[verb] ?? "unknown");
    if (verb === "completed" && data.is_error === true) span.state = "failed";
    if (verb !== "started") span.end = record.created_at;
    this.unbilled.set(`call ${name.replace(/^agent:/, "")}`, span);
  }

  /** What a runner says about tools of its own. */
  private ofToolCall(record: AgentRunRecord, verb: string): void {
    const { data } = record;
    const failed = verb === "completed" && data.error !== undefined && data.error !== null;
    const span = this.open(`call:${text(data.tool_call_id) ?? record.seq}`, "tool", text(data.tool_name) ?? "", record, verb === "started" ? "open" : failed ? "failed" : "done");
    if (verb === "completed") span.end = record.created_at;
  }

  private ofApproval(record: AgentRunRecord, verb: string): void {
    const { data } = record;
    const call = text(data.call_id);
    const above = call === undefined ? undefined : this.byId.get(`call:${call}`) ?? (verb === "requested" ? this.callOf(call, data, record) : undefined);
    const span = this.open(`approval:${text(data.approval_id) ?? record.seq}`, "approval", text(data.name) ?? "", record, "waiting", above);
    span.name = text(data.name) ?? span.name;
    if (verb === "requested") this.park(span);
    if (verb === "requested" || verb === "used") return;
    span.end = record.created_at;
    span.state = verb === "granted" ? "done" : verb === "denied" ? "failed" : "cancelled";
    if (above?.state === "waiting") above.state = verb === "granted" ? "open" : "failed";
  }

  /** A call that waits for consent has no record of its own yet. */
  private callOf(call: string, data: Data, record: AgentRunRecord): Span {
    const span = makeSpan(`call:${call}`, text(data.kind) === "agent" ? "child" : "tool", text(data.name) ?? "", record.created_at, { end: undefined, state: "waiting" });
    this.byId.set(span.id, span);
    this.run.children.push(span);
    return span;
  }

  private ofQuestion(record: AgentRunRecord, verb: string): void {
    const { data } = record;
    const above = this.byId.get(`call:${text(data.call_id) ?? ""}`);
    const span = this.open(`question:${text(data.question_id) ?? record.seq}`, "question", text(data.question) ?? "", record, "waiting", above);
    span.name = text(data.question) ?? span.name;
    if (verb === "asked") this.park(span);
    if (verb === "asked") return;
    span.end = record.created_at;
    span.state = verb === "answered" ? "done" : "cancelled";
  }

  private ofSteering(record: AgentRunRecord, verb: string): void {
    const span = this.open(`steering:${text(record.data.event_id) ?? record.seq}`, "steering", text(record.data.event_id) ?? "", record, verb === "queued" ? "waiting" : "open");
    if (verb !== "acknowledged" && verb !== "dropped") return;
    span.end = record.created_at;
    span.state = verb === "dropped" ? "cancelled" : "done";
  }

  private ofMessage(record: AgentRunRecord, verb: string): void {
    const message = object(verb === "delta" ? record.data.chunk : record.data.message);
    const call = this.byId.get(`call:${text(message.tool_call_id) ?? ""}`);
    if (message.role === "tool" && call !== undefined) call.records.push(record);
    else if (verb === "delta") this.ofDelta(record, message);
    else this.completed(record, message);
  }

  private ofDelta(record: AgentRunRecord, chunk: Data): void {
    const id = text(record.data.message_id);
    const span = (id === undefined ? this.message : this.byId.get(`message:${id}`)) ?? this.open(`message:${id ?? record.seq}`, "message", "assistant", record, "open");
    if (span.deltas === 0) span.records = []; // the increments are a bar, not records
    span.deltas += 1;
    if (span.text.length < LIVE_CHARACTERS) span.text += contentText(chunk.content);
    if (id === undefined) this.message = span;
  }

  private completed(record: AgentRunRecord, message: Data): void {
    const id = text(record.data.message_id);
    const known = (id === undefined ? this.message : this.byId.get(`message:${id}`)) ?? undefined;
    const span = known ?? this.open(`message:${id ?? record.seq}`, "message", "", record, "done");
    if (known !== undefined) span.records.push(record);
    else if (this.holes > 0) span.start = this.holesFrom;
    span.name = list(message.tool_calls).map((call) => text(object(object(call).function).name)).filter(Boolean).join(", ") || (text(message.role) ?? "");
    span.deltas += this.holes;
    span.text = contentText(message.content);
    span.end = record.created_at;
    span.state = "done";
    this.holes = 0;
    if (this.message === span) this.message = undefined;
  }

  /** A call of the run API. The bill of a model or tool call belongs to that call. */
  private ofCall(record: AgentRunRecord, verb: string): void {
    const { data } = record;
    const action = text(data.action) ?? "";
    const key = action.startsWith("models.") ? `model ${text(data.resource) ?? ""}` : CALLS.has(action) ? `call ${text(data.resource) ?? ""}` : "";
    const call = this.unbilled.get(key);
    this.unbilled.delete(key);
    if (call !== undefined) {
      call.records.push(record);
      return;
    }
    const good = verb === "called" && text(data.outcome) === "ok";
    const span = this.note("call", action, record, good ? "done" : "failed");
    span.start = Math.max(this.run.start, record.created_at - (count(data.ms) ?? 0) / 1_000);
  }

  /** A span of one moment. */
  private note(kind: SpanKind, name: string, record: AgentRunRecord, state: SpanState = "done"): Span {
    return this.put(`${kind}:${record.seq}`, kind, name, record, state);
  }

  private put(id: string, kind: SpanKind, name: string, record: AgentRunRecord, state: SpanState = "done"): Span {
    const span = this.open(id, kind, name, record, state);
    span.end ??= record.created_at;
    return span;
  }

  /** The span with this id, new or known, with the record and the state. */
  private open(id: string, kind: SpanKind, name: string, record: AgentRunRecord, state: SpanState, above: Span = this.run): Span {
    const known = this.byId.get(id);
    if (known !== undefined) {
      known.records.push(record);
      if (known.end === undefined) known.state = state;
      return known;
    }
    const span = makeSpan(id, kind, name, record.created_at, { end: undefined, state, records: [record] });
    this.byId.set(id, span);
    above.children.push(span);
    return span;
  }
}
