import { ApiError, errorOf, unreachable } from "./errors";
import { SseParser, type SseEvent } from "./sse";

/** One record of a stream: its position, its type and its data. */
export interface StreamRecord {
  /** The position after which a reader resumes. A `gap` has none. */
  id: string | undefined;
  type: string;
  data: Record<string, unknown>;
}

export type StreamStatus = "connecting" | "live" | "reconnecting";

export interface StreamOptions {
  /** Read the records after this position. Default: from the beginning. */
  after?: string | undefined;
  signal?: AbortSignal | undefined;
  headers?: Record<string, string> | undefined;
  /** Called when the connection opens, breaks and opens again. */
  onStatus?: ((status: StreamStatus) => void) | undefined;
  /** The type of the record after which there are no more. Without it the stream is endless. */
  last?: string | undefined;
  fetch?: typeof fetch | undefined;
  /** Waits before a reconnection; tests replace it. */
  wait?: ((ms: number, signal: AbortSignal | undefined) => Promise<void>) | undefined;
}

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 8_000;
/** The host sends a comment at least every 15 s. A connection that is silent for longer is dead. */
const SILENCE_MS = 45_000;

/**
 * The records of a stream, each once and in order. The reader reconnects by itself after the last position that it
 * yielded, until the last record, an abort, or an error that a retry cannot mend.
 */
export async function* resumableStream(url: string, options: StreamOptions = {}): AsyncGenerator<StreamRecord> {
  const wait = options.wait ?? pause;
  let after = options.after;
  let failures = 0;
  options.onStatus?.("connecting");
  for (;;) {
    try {
      for await (const event of readOnce(url, after, options)) {
        failures = 0;
        const record = { id: event.id, type: event.event, data: JSON.parse(event.data) as Record<string, unknown> };
        if (event.id !== undefined) after = event.id;
        yield record;
        if (record.type === options.last) return;
      }
    } catch (error) {
      if (options.signal?.aborted) return;
      if (error instanceof ApiError && !error.retryable && error.status !== 429) throw error;
    }
    if (options.signal?.aborted) return;
    options.onStatus?.("reconnecting");
    await wait(Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** failures), options.signal);
    failures += 1;
    if (options.signal?.aborted) return;
  }
}

async function* readOnce(url: string, after: string | undefined, options: StreamOptions): AsyncGenerator<SseEvent> {
  const watchdog = new AbortController();
  const abort = (): void => {
    watchdog.abort();
  };
  options.signal?.addEventListener("abort", abort);
  globalThis.addEventListener("offline", abort); // a connection of a lost network looks open; a new one to a near host still works
  let timer = setTimeout(abort, SILENCE_MS);
  try {
    const headers: Record<string, string> = { accept: "text/event-stream", ...options.headers };
    if (after !== undefined) headers["last-event-id"] = after;
    const answer = await (options.fetch ?? fetch)(url, { headers, signal: watchdog.signal }).catch((error: unknown) => {
      throw options.signal?.aborted ? error : unreachable();
    });
    if (!answer.ok || answer.body === null) throw errorOf(await answer.json().catch(() => null), answer.status);
    options.onStatus?.("live");
    const reader = answer.body.getReader();
    const decoder = new TextDecoder();
    const parser = new SseParser();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(abort, SILENCE_MS);
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    clearTimeout(timer);
    watchdog.abort();
    options.signal?.removeEventListener("abort", abort);
    globalThis.removeEventListener("offline", abort);
  }
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      globalThis.removeEventListener("online", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end);
    globalThis.addEventListener("online", end); // a network that is back is worth a try at once
  });
}
