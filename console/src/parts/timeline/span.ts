/** What a run did, as bars on one axis of time. A span gathers the records of one thing: a model call, a tool call, a message. */
import type { AgentRunRecord } from "@bollard/client";

export type SpanKind =
  | "event" | "run" | "route" | "grant" | "start" | "model" | "tool" | "child" | "approval" | "question" | "message" | "state"
  | "artifact" | "steering" | "call" | "cancel" | "revoked" | "problem" | "end" | "delivery" | "other";
export type SpanState = "open" | "waiting" | "done" | "failed" | "cancelled" | "unknown";
export type Data = Record<string, unknown>;

export interface Span {
  readonly id: string;
  readonly kind: SpanKind;
  /** A name from the records: a tool, a model, a key. It is foreign text. */
  name: string;
  /** Seconds since 1970. */
  start: number;
  /** Absent while it goes on. */
  end: number | undefined;
  state: SpanState;
  records: AgentRunRecord[];
  children: Span[];
  /** How many increments a message came in. */
  deltas: number;
  /** The text of a message so far. */
  text: string;
  /** The model call that failed before this one took its place. */
  fallbackOf?: string | undefined;
}

export function makeSpan(id: string, kind: SpanKind, name: string, start: number, over: Partial<Span> = {}): Span {
  return { id, kind, name, start, end: start, state: "done", records: [], children: [], deltas: 0, text: "", ...over };
}

/** The data of the first record of a type, or of any record that begins with it. */
export function dataOf(span: Span, prefix: string): Data | undefined {
  return span.records.find((record) => record.type.startsWith(prefix))?.data;
}

export function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

export function count(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

export function object(value: unknown): Data {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Data) : {};
}

export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** The text of a message's content, which is a text or a list of parts. */
export function contentText(content: unknown): string {
  if (typeof content === "string") return content;
  return list(content).map((part) => text(object(part).text) ?? "").filter(Boolean).join("\n");
}
