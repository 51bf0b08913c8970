/** What a run has said and done so far, made from its records. Pure: chat and timeline show the same. */
import { contentText, fileOf, list, number, object, outputOf, sourcesOf, text } from "./record-values";
import type { Block, BlockOf, Call, RunRecord, Source } from "./run-block";

export interface RunEnd {
  status: string;
  code: string | undefined;
  error: string | undefined;
  details: Record<string, unknown>;
}

export interface RunProgress {
  agentId: string | undefined;
  /** `queued`, `running`, `waiting`, or the terminal state. */
  status: string;
  blocks: readonly Block[];
  end: RunEnd | undefined;
  model: string | undefined;
  createdAt: number | undefined;
  endedAt: number | undefined;
  epoch: number;
  seq: number;
  /** Retention has dropped some of the records. */
  incomplete: boolean;
}

export const NOTHING_YET: RunProgress = {
  agentId: undefined, status: "queued", blocks: [], end: undefined, model: undefined, createdAt: undefined, endedAt: undefined, epoch: 0, seq: 0,
  incomplete: false,
};

/** The progress after more records. A record that is known already changes nothing. */
export function advance(progress: RunProgress, records: Iterable<RunRecord>): RunProgress {
  let next = progress;
  for (const record of records) {
    if (record.epoch < next.epoch || (record.epoch === next.epoch && record.seq <= next.seq)) continue;
    next = { ...step(next, record), epoch: record.epoch, seq: record.seq };
  }
  return next;
}

function step(progress: RunProgress, record: RunRecord): RunProgress {
  const { type, data } = record;
  const family = type.slice(0, type.lastIndexOf("."));
  if (family === "message") return type === "message.delta" ? withDelta(progress, record) : withMessage(progress, record);
  if (family === "run") return withState(progress, record);
  if (family === "action") return withCall(progress, record);
  if (family === "tool.call") return withTelemetry(progress, record);
  if (family === "approval") return withApproval(progress, record);
  if (family === "question") return withQuestion(progress, record);
  if (family === "steering") return withSteering(progress, record);
  if (type === "artifact.created") return withBlock(progress, { kind: "file", key: `file-${record.seq}`, seq: record.seq, file: fileOf(data) });
  if (type === "model.called") return { ...progress, model: text(data.model_id) ?? progress.model };
  return progress;
}

function withState(progress: RunProgress, { type, data, created_at }: RunRecord): RunProgress {
  switch (type) {
    case "run.created":
      return { ...progress, agentId: text(data.agent_id), createdAt: created_at };
    case "run.started":
    case "run.resumed":
      return { ...progress, status: "running" };
    case "run.waiting":
      return { ...progress, status: "waiting" };
    case "run.ended": {
      const end = { status: text(data.status) ?? "unknown", code: text(data.code), error: text(data.error), details: object(data.details) };
      return { ...progress, status: end.status, end, endedAt: created_at, blocks: progress.blocks.map(closed) };
    }
    default:
      return progress;
  }
}

function withDelta(progress: RunProgress, record: RunRecord): RunProgress {
  const chunk = object(record.data.chunk);
  const messageId = text(record.data.message_id);
  const next = grown(progress, "thinking", messageId, text(chunk.reasoning) ?? "", record.seq);
  return grown(next, "text", messageId, contentText(chunk.content), record.seq);
}

/** Appends to the last block if it is open and of the same message, else begins one: text after a tool call is a new block. */
function grown(progress: RunProgress, kind: "text" | "thinking", messageId: string | undefined, more: string, seq: number): RunProgress {
  if (more === "") return progress;
  const last = progress.blocks.at(-1);
  if (last?.kind === kind && last.open && last.messageId === messageId) {
    return { ...progress, blocks: [...progress.blocks.slice(0, -1), { ...last, text: last.text + more }] };
  }
  return withBlock(progress, { kind, key: `${kind}-${seq}`, seq, messageId, text: more, open: true, sources: [] });
}

/** A whole message replaces its deltas. Deltas around a tool call keep their places if they are the same text. */
function withMessage(progress: RunProgress, record: RunRecord): RunProgress {
  const message = object(record.data.message);
  const role = text(message.role) ?? "assistant";
  if (role === "tool") return withToolMessage(progress, message, record);
  if (role !== "assistant") return progress;
  const messageId = text(record.data.message_id);
  const sources = sourcesOf(object(message.metadata).citations);
  let next = settled(progress, "thinking", messageId, text(message.reasoning) ?? "", record.seq, []);
  next = settled(next, "text", messageId, contentText(message.content), record.seq, sources);
  for (const [index, ref] of list(message.artifact_refs).entries()) {
    const file = fileOf(object(ref));
    const known = next.blocks.some((block) => block.kind === "file" && block.file.id === file.id);
    if (!known) next = withBlock(next, { kind: "file", key: `file-${record.seq}-${index}`, seq: record.seq, file });
  }
  return next;
}

function settled(progress: RunProgress, kind: "text" | "thinking", messageId: string | undefined, whole: string, seq: number, sources: readonly Source[]): RunProgress {
  const own = (block: Block): block is BlockOf<"text"> | BlockOf<"thinking"> => block.kind === kind && block.open && block.messageId === messageId;
  const open = progress.blocks.filter(own);
  const last = open.at(-1);
  if (last === undefined) {
    return whole === "" ? progress : withBlock(progress, { kind, key: `${kind}-${seq}`, seq, messageId, text: whole, open: false, sources });
  }
  if (open.map((block) => block.text).join("") === whole) {
    const done = (block: Block): Block => (own(block) ? { ...block, open: false, ...(block === last ? { sources } : {}) } : block);
    return { ...progress, blocks: progress.blocks.map(done) };
  }
  const blocks = progress.blocks.filter((block) => !own(block) || block === last);
  return { ...progress, blocks: blocks.flatMap((block): Block[] => (block === last ? (whole === "" ? [] : [{ ...last, text: whole, open: false, sources }]) : [block])) };
}

/** The result of a tool that only the runner knows about. */
function withToolMessage(progress: RunProgress, message: Record<string, unknown>, record: RunRecord): RunProgress {
  const id = text(message.tool_call_id);
  if (id === undefined || progress.blocks.some((block) => block.kind === "call" && block.call.id === id)) return progress;
  return withCallChange(progress, id, record, { name: text(message.name) ?? id, status: "completed", output: contentText(message.content) });
}

function withCall(progress: RunProgress, record: RunRecord): RunProgress {
  const { data, type } = record;
  const id = text(data.call_id);
  if (id === undefined) return progress;
  if (type === "action.started") {
    return withCallChange(progress, id, record, {
      name: text(data.name) ?? id, capability: text(data.capability), arguments: data.arguments, status: "started", startedAt: record.created_at,
    });
  }
  const status = type.slice("action.".length);
  if (status !== "completed" && status !== "failed" && status !== "rejected" && status !== "unknown") return progress;
  const named = text(data.name);
  return withCallChange(progress, id, record, {
    ...(named === undefined ? {} : { name: named }),
    ...("arguments" in data ? { arguments: data.arguments } : {}),
    status,
    isError: data.is_error === true,
    output: status === "completed" ? outputOf(data) : undefined,
    error: status === "completed" ? undefined : { code: text(data.code) ?? status, message: text(data.message) ?? text(data.code) ?? status, details: object(data.details) },
    durationMs: number(data.duration_ms),
  });
}

/** Tools of the runner itself. A call that the host made has its own records and keeps them. */
function withTelemetry(progress: RunProgress, record: RunRecord): RunProgress {
  const { data, type } = record;
  const id = text(data.tool_call_id);
  const name = text(data.tool_name);
  if (id === undefined || name === undefined) return progress;
  const known = progress.blocks.find((block): block is BlockOf<"call"> => block.kind === "call" && block.call.id === id);
  if (known?.call.capability !== undefined) return progress;
  if (type === "tool.call.started") return withCallChange(progress, id, record, { name, arguments: data.parameters, status: "started", startedAt: record.created_at });
  const failed = data.error !== undefined && data.error !== null;
  const began = known?.call.startedAt;
  return withCallChange(progress, id, record, {
    name, status: "completed", isError: failed, output: failed ? data.error : data.result,
    durationMs: began === undefined ? undefined : Math.max(0, (record.created_at - began) * 1000),
  });
}

function withCallChange(progress: RunProgress, id: string, record: RunRecord, change: Partial<Call>): RunProgress {
  const at = progress.blocks.findIndex((block) => block.kind === "call" && block.call.id === id);
  const found = progress.blocks[at];
  if (found?.kind === "call") return { ...progress, blocks: progress.blocks.with(at, { ...found, call: { ...found.call, ...change } }) };
  const call: Call = {
    id, name: id, capability: undefined, arguments: undefined, status: "started", isError: false, output: undefined, error: undefined, startedAt: undefined,
    durationMs: undefined, ...change,
  };
  return withBlock(progress, { kind: "call", key: `call-${record.seq}`, seq: record.seq, call });
}

function withApproval(progress: RunProgress, { type, data, seq }: RunRecord): RunProgress {
  const id = text(data.approval_id);
  if (id === undefined) return progress;
  const status = type.slice("approval.".length);
  if (status === "requested") {
    return withBlock(progress, { kind: "approval", key: `approval-${seq}`, seq, approvalId: id, name: text(data.name) ?? "", status, by: undefined, decision: undefined });
  }
  return changed(progress, "approval", (block) => block.approvalId === id, (block) => ({
    ...block, status, by: text(data.by) ?? block.by, decision: text(data.decision) ?? block.decision,
  }));
}

function withQuestion(progress: RunProgress, { type, data, seq, created_at }: RunRecord): RunProgress {
  const id = text(data.question_id);
  if (id === undefined) return progress;
  if (type === "question.asked") {
    const choices = list(data.choices).filter((choice): choice is string => typeof choice === "string");
    return withBlock(progress, {
      kind: "question", key: `question-${seq}`, seq, questionId: id, question: text(data.question) ?? "", choices, askedAt: created_at, status: "asked", answer: undefined,
    });
  }
  const status = type === "question.answered" ? "answered" : "expired";
  return changed(progress, "question", (block) => block.questionId === id, (block) => ({ ...block, status, answer: text(data.answer) }));
}

function withSteering(progress: RunProgress, { type, data, seq }: RunRecord): RunProgress {
  const eventId = text(data.event_id);
  const status = type.slice("steering.".length);
  if (eventId === undefined || (status !== "queued" && status !== "injected" && status !== "acknowledged" && status !== "dropped")) return progress;
  if (status === "queued") return withBlock(progress, { kind: "steering", key: `steering-${seq}`, seq, eventId, status, redispatch: false });
  return changed(progress, "steering", (block) => block.eventId === eventId, (block) => ({ ...block, status, redispatch: data.redispatch === true }));
}

function changed<K extends Block["kind"]>(progress: RunProgress, kind: K, isIt: (block: BlockOf<K>) => boolean, change: (block: BlockOf<K>) => Block): RunProgress {
  const of = (block: Block): block is BlockOf<K> => block.kind === kind;
  return { ...progress, blocks: progress.blocks.map((block) => (of(block) && isIt(block) ? change(block) : block)) };
}

function withBlock(progress: RunProgress, block: Block): RunProgress {
  return { ...progress, blocks: [...progress.blocks, block] };
}

function closed(block: Block): Block {
  return (block.kind === "text" || block.kind === "thinking") && block.open ? { ...block, open: false } : block;
}
