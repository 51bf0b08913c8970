/** Messages on their way to the host. They live in the session storage, so that none is lost by a reload, a lost network or an expired login. */
import { ApiError, createRun, type Accepted } from "@bollard/client";
import type { FileRef } from "@/parts/run-block";

export type Outcome = "absorbed" | "queued" | "started";
export interface Outgoing {
  /** The idempotency id: a repeated request finds the first message. */
  id: string;
  conversation: string;
  thread: string | undefined;
  agent: string;
  text: string;
  files: readonly FileRef[];
  /** Seconds since 1970. */
  at: number;
  locale: string;
  state: "sending" | "failed" | "sent";
  eventId: string | undefined;
  runId: string | undefined;
  outcome: Outcome | undefined;
}

type Send = (message: Outgoing) => Promise<Accepted>;
const STORED = "bollard.chat.outbox";
const KEPT = 50;

export class Outbox {
  private all: readonly Outgoing[];
  private readonly errors = new Map<string, unknown>();
  private readonly listeners = new Set<() => void>();

  constructor(private readonly storage: Storage, private readonly send: Send, private readonly onSent: (message: Outgoing) => void) {
    this.all = stored(storage);
  }

  /** Sends again what a reload interrupted. */
  resume(): void {
    for (const message of this.all) if (message.state === "sending") void this.post(message);
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };
  readonly messages = (): readonly Outgoing[] => this.all;

  error(id: string): unknown {
    return this.errors.get(id);
  }

  add(message: Omit<Outgoing, "id" | "at" | "state" | "eventId" | "runId" | "outcome">): void {
    const added: Outgoing = { ...message, id: randomId(), at: Date.now() / 1000, state: "sending", eventId: undefined, runId: undefined, outcome: undefined };
    this.put([...this.all.slice(-KEPT), added]);
    void this.post(added);
  }

  /** Sends a failed message again, with the same id. */
  retry(id: string): void {
    const message = this.all.find((each) => each.id === id);
    if (message?.state === "failed") void this.post(this.change(message, { state: "sending" }));
  }

  discard(id: string): void {
    this.put(this.all.filter((message) => message.id !== id));
  }

  private async post(message: Outgoing): Promise<void> {
    this.errors.delete(message.id);
    try {
      const accepted = await this.send(message);
      if (accepted.reason !== undefined && accepted.reason !== null) throw new ApiError(accepted.reason, 0);
      this.onSent(this.change(message, { state: "sent", eventId: accepted.event_id, runId: accepted.run_id ?? undefined, outcome: accepted.steering === undefined ? "started" : "absorbed" }));
    } catch (error) {
      this.errors.set(message.id, error);
      this.change(message, { state: "failed" });
    }
  }

  private change(message: Outgoing, change: Partial<Outgoing>): Outgoing {
    const next = { ...message, ...change };
    this.put(this.all.map((each) => (each.id === message.id ? next : each)));
    return next;
  }

  private put(all: readonly Outgoing[]): void {
    this.all = all;
    this.storage.setItem(STORED, JSON.stringify(all));
    for (const listener of this.listeners) listener();
  }
}

function stored(storage: Storage): readonly Outgoing[] {
  try {
    const value: unknown = JSON.parse(storage.getItem(STORED) ?? "[]");
    return Array.isArray(value) ? (value as Outgoing[]) : [];
  } catch {
    return [];
  }
}

/** 32 hexadecimal digits. `crypto.randomUUID` is missing on plain http. */
export function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function postMessage(message: Outgoing): Promise<Accepted> {
  return createRun({
    body: {
      agent: message.agent,
      conversation: message.conversation,
      ...(message.thread === undefined ? {} : { thread: message.thread }),
      id: message.id,
      input: { text: message.text, ...(message.files.length === 0 ? {} : { attachments: message.files.map((file) => ({ artifact_id: file.id, artifact_type: file.type })) }) },
      locale: message.locale,
      timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    },
  });
}
