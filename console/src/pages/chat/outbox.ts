/**
 * Messages on their way to the host. They live in the session storage, so that none is lost by a reload, a lost network
 * or an expired login. A message that got no answer is sent again by itself, after those before it and with the same id.
 */
import { ApiError, createRun, type Accepted, type ErrorBody } from "@bollard/client";
import type { FileRef } from "@/parts/run-block";

export type Outcome = "absorbed" | "started";
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
  /** `waiting`: sent again by itself. `rejected`: the host does not take it. `failed`: something between page and host failed. */
  state: "sending" | "waiting" | "rejected" | "failed" | "sent";
  /** Why it waits, was rejected or failed. */
  problem: ErrorBody | undefined;
  eventId: string | undefined;
  runId: string | undefined;
  outcome: Outcome | undefined;
}

type Send = (message: Outgoing) => Promise<Accepted>;
const STORED = "bollard.chat.outbox";
const KEPT = 50;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 30_000;

export class Outbox {
  private all: readonly Outgoing[];
  private readonly listeners = new Set<() => void>();
  /** Conversations with a request under way: messages of one conversation go out in their order. */
  private readonly busy = new Set<string>();
  private onSent: ((message: Outgoing) => void) | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private failures = 0;

  constructor(private readonly storage: Storage, private readonly send: Send, private readonly key = STORED) {
    this.all = stored(storage, key);
  }

  /** Sends what waits, now and whenever the network is back, until the returned function is called. */
  start(onSent: (message: Outgoing) => void): () => void {
    this.onSent = onSent;
    globalThis.addEventListener("online", this.resume);
    this.resume();
    return () => {
      this.onSent = undefined;
      globalThis.removeEventListener("online", this.resume);
      clearTimeout(this.timer);
      this.timer = undefined;
    };
  }

  /** Sends what waits, and what a reload interrupted. */
  readonly resume = (): void => {
    for (const conversation of new Set(this.all.filter(isOnItsWay).map((message) => message.conversation))) void this.flush(conversation);
  };

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };
  readonly messages = (): readonly Outgoing[] => this.all;

  add(message: Pick<Outgoing, "conversation" | "thread" | "agent" | "text" | "files" | "locale">): void {
    const added: Outgoing = { ...message, id: randomId(), at: Date.now() / 1000, state: "sending", problem: undefined, eventId: undefined, runId: undefined, outcome: undefined };
    this.put([...this.all.slice(-KEPT), added]);
    void this.flush(added.conversation);
  }

  /** Sends a message again. A rejected one gets a new id: the host may have stored the rejection under the old one. */
  retry(id: string): void {
    const message = this.all.find((each) => each.id === id);
    if (message === undefined || message.state === "sent") return;
    this.change(message, { state: "sending", ...(message.state === "rejected" ? { id: randomId() } : {}) });
    void this.flush(message.conversation);
  }

  discard(id: string): void {
    this.put(this.all.filter((message) => message.id !== id));
  }

  private async flush(conversation: string): Promise<void> {
    if (this.busy.has(conversation)) return;
    this.busy.add(conversation);
    const next = (): Outgoing | undefined => this.all.find((message) => message.conversation === conversation && isOnItsWay(message));
    for (let message = next(); message !== undefined && (await this.post(message)); ) message = next();
    this.busy.delete(conversation);
  }

  /** False if the message waits, and those behind it with it. */
  private async post(message: Outgoing): Promise<boolean> {
    try {
      const accepted = await this.send(message);
      if (accepted.reason !== undefined && accepted.reason !== null) throw new ApiError(accepted.reason, REJECTED);
      this.failures = 0;
      this.onSent?.(this.change(message, { state: "sent", problem: undefined, eventId: accepted.event_id, runId: accepted.run_id ?? undefined, outcome: accepted.steering === undefined ? "started" : "absorbed" }));
      return true;
    } catch (error) {
      const { code, message: sentence, hint, details } = error instanceof ApiError ? error : new ApiError({ code: "bug", message: String(error) }, REJECTED);
      const problem: ErrorBody = { code, message: sentence, details, ...(hint === undefined ? {} : { hint }) };
      const state = stateAfter(error);
      this.change(message, { state, problem });
      if (state !== "waiting") return true;
      this.put(this.all.map((each) => (each.conversation === message.conversation && each.state === "sending" ? { ...each, state, problem } : each)));
      this.wait(details.retry_after_s);
      return false;
    }
  }

  private wait(retryAfterS: unknown): void {
    if (this.onSent === undefined) return; // nobody looks at it; the next start sends it
    const ms = typeof retryAfterS === "number" ? retryAfterS * 1_000 : FIRST_WAIT_MS * 2 ** this.failures;
    this.failures += 1;
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.resume();
    }, Math.min(LONGEST_WAIT_MS, ms));
  }

  private change(message: Outgoing, change: Partial<Outgoing>): Outgoing {
    const next = { ...message, ...change };
    this.put(this.all.map((each) => (each.id === message.id ? next : each)));
    return next;
  }

  private put(all: readonly Outgoing[]): void {
    this.all = all;
    this.storage.setItem(this.key, JSON.stringify(all));
    for (const listener of this.listeners) listener();
  }
}

const REJECTED = 422;
const UNAUTHENTICATED = 401;

function isOnItsWay(message: Outgoing): boolean {
  return message.state === "sending" || message.state === "waiting";
}

/** A message without an answer waits, and so does one of a session that expired: the person signs in over the page. */
function stateAfter(error: unknown): "waiting" | "rejected" | "failed" {
  if (!(error instanceof ApiError)) return "failed";
  if (error.status === 0 || error.retryable || error.status === UNAUTHENTICATED) return "waiting";
  return error.code === "bad_answer" ? "failed" : "rejected";
}

const outboxes = new Map<string, Outbox>();

/** The outbox of a person in a workspace. A message never goes out in the name of another person or into another workspace. */
export function outboxOf(person: string, workspace: string): Outbox {
  const key = `${STORED}.${person}.${workspace}`;
  const outbox = outboxes.get(key) ?? new Outbox(sessionStorage, (message) => postMessage(message, workspace), key);
  outboxes.set(key, outbox);
  return outbox;
}

function stored(storage: Storage, key: string): readonly Outgoing[] {
  try {
    const value: unknown = JSON.parse(storage.getItem(key) ?? "[]");
    return Array.isArray(value) ? (value as Outgoing[]) : [];
  } catch {
    return [];
  }
}

/** 32 hexadecimal digits. `crypto.randomUUID` is missing on plain http. */
export function randomId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function postMessage(message: Outgoing, workspace: string): Promise<Accepted> {
  return createRun({
    headers: { "bollard-workspace": workspace },
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
