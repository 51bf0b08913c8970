/** The records of a run, and the pieces that a reader sees: text, thinking, calls, requests, files. */

export interface RunRecord {
  seq: number;
  epoch: number;
  type: string;
  data: Record<string, unknown>;
  /** Seconds since 1970. */
  created_at: number;
}

export interface Source {
  id: number;
  name: string;
  knowledgeBase: string;
  source: string;
}

export interface Call {
  id: string;
  name: string;
  capability: string | undefined;
  arguments: unknown;
  status: "started" | "completed" | "failed" | "rejected" | "unknown";
  /** The tool itself reports an error. */
  isError: boolean;
  output: unknown;
  error: { code: string; message: string; details: Record<string, unknown> } | undefined;
  startedAt: number | undefined;
  durationMs: number | undefined;
}

export interface FileRef {
  id: string;
  name: string;
  /** The kind of artifact, such as `file` or `image`. */
  type: string;
  mimeType: string;
  bytes: number | undefined;
}

export type Block = { key: string; seq: number } & (
  | { kind: "text"; messageId: string | undefined; text: string; open: boolean; sources: readonly Source[] }
  | { kind: "thinking"; messageId: string | undefined; text: string; open: boolean; sources: readonly Source[] }
  | { kind: "call"; call: Call }
  | { kind: "approval"; approvalId: string; name: string; status: string; by: string | undefined; decision: string | undefined }
  | { kind: "question"; questionId: string; question: string; choices: readonly string[]; askedAt: number; status: "asked" | "answered" | "expired"; answer: string | undefined }
  | { kind: "steering"; eventId: string; status: "queued" | "injected" | "acknowledged" | "dropped"; redispatch: boolean }
  | { kind: "file"; file: FileRef }
);
export type BlockOf<K extends Block["kind"]> = Extract<Block, { kind: K }>;
