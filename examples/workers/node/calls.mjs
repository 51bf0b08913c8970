// The calls and streams that one run makes to its host. A run that has ended can make none.

import { RpcError } from './channel.mjs';
import { LIMITS, encode } from './frames.mjs';

const CREDIT_EVERY = 32;
let streamsOpened = 0; // a stream's id is unique on its channel, and a process has one channel

/** Why the host refused a call. Programs decide by `code`. */
export class ApiError extends Error {
  constructor({ code = 'runtime_error', message = '', retryable = false, details = {} } = {}) {
    super(message || code);
    this.code = code;
    this.retryable = retryable;
    this.details = details;
  }
}

function asApiError({ message, data }) {
  const told = typeof data === 'object' && data !== null && typeof data.code === 'string';
  return new ApiError({ message, ...(told ? data : {}) });
}

export class ApiCalls {
  #channel;
  #run;
  #open = new Set(); // ids of the requests that have no answer yet
  #streams = new Map(); // stream_id -> Stream

  constructor(channel, run) {
    this.#channel = channel;
    this.#run = run;
  }

  /** The answer of the host. `signal` gives the call up. */
  async call(action, params = {}, { signal } = {}) {
    this.#mayCall(action, params);
    const { id, answer } = this.#channel.request('api/call', { run_id: this.#run.id, action, params });
    this.#open.add(id);
    const stop = () => this.#giveUp(id);
    try {
      return await (signal ? Promise.race([answer, abortOf(signal, stop)]) : answer);
    } catch (error) {
      throw error instanceof RpcError ? asApiError(error) : error;
    } finally {
      signal?.removeEventListener('abort', stop);
      this.#open.delete(id);
    }
  }

  /** The chunks of a streamed call, one by one. Leaving the loop gives the stream up. */
  async *stream(action, params = {}) {
    this.#mayCall(action, params);
    const streamId = `stream-${(streamsOpened += 1)}`;
    const named = { stream_id: streamId };
    const stream = new Stream((index) => this.#run.live && this.#channel.notify('api/credit', { ...named, index }));
    this.#streams.set(streamId, stream);
    const { id, answer } = this.#channel.request('api/stream', { run_id: this.#run.id, ...named, action, params });
    this.#open.add(id);
    answer.then(
      () => stream.close(null),
      (error) => stream.close(asApiError(error)),
    );
    try {
      for (;;) {
        const step = await this.#run.interruptible(stream.next());
        if (step.done) return;
        yield step.data;
      }
    } finally {
      this.#streams.delete(streamId);
      if (!stream.closed) this.#giveUp(id);
      this.#open.delete(id);
    }
  }

  /** Chunks of a stream that was left are ignored. */
  chunk({ stream_id: streamId, data }) {
    return this.#streams.get(streamId)?.push(data);
  }

  /** Before the terminal result, while the run may still speak. */
  giveUpAll() {
    for (const id of this.#open) this.#giveUp(id);
  }

  /** After it: whoever still waits learns that the run is over. */
  rejectAll() {
    const over = new ApiError({ code: 'not_found', message: 'the run has ended' });
    for (const stream of this.#streams.values()) stream.close(over);
    for (const id of this.#open) this.#channel.forget(id);
    this.#open.clear();
  }

  #giveUp(id) {
    if (!this.#open.has(id) || !this.#run.live) return;
    this.#channel.forget(id);
    this.#open.delete(id);
    this.#channel.notify('api/cancel', { run_id: this.#run.id, id });
  }

  #mayCall(action, params) {
    const refuse = (code, why) => {
      throw new ApiError({ code, message: `${action} was not sent: ${why}` });
    };
    if (!this.#run.live) refuse('not_found', 'the run has ended');
    const bytes = Buffer.byteLength(encode(params));
    if (bytes > LIMITS.callBytes) {
      refuse('payload_too_large', `its parameters are ${bytes} bytes, at most ${LIMITS.callBytes} are allowed`);
    }
  }
}

/** What came and was not taken yet. The host's window bounds it. */
class Stream {
  #chunks = [];
  #wake = null;
  #error = null;
  #taken = 0;
  #credited = 0;
  #credit;
  closed = false;

  constructor(credit) {
    this.#credit = credit;
  }

  push(data) {
    if (this.closed) return;
    this.#chunks.push(data);
    this.#wake?.();
  }

  close(error) {
    if (this.closed) return;
    this.closed = true;
    this.#error = error;
    this.#wake?.();
  }

  async next() {
    while (this.#chunks.length === 0) {
      if (this.#error) throw this.#error;
      if (this.closed) return { done: true };
      await new Promise((resolve) => {
        this.#wake = resolve;
      });
    }
    const data = this.#chunks.shift();
    this.#taken += 1;
    if (!this.closed && (this.#taken - this.#credited >= CREDIT_EVERY || this.#chunks.length === 0)) {
      this.#credited = this.#taken;
      this.#credit(this.#taken);
    }
    return { done: false, data };
  }
}

/** Rejects when the signal fires, after `stop`. */
function abortOf(signal, stop) {
  return new Promise((_, reject) => {
    signal.throwIfAborted();
    signal.addEventListener('abort', stop, { once: true });
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}
