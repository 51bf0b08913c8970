// One run: drives the runner's generator, numbers its results, honours credit, sends one terminal result.

import { BadFrame, encode, LIMITS } from './frames.mjs';
import { ApiCalls } from './calls.mjs';

const TERMINAL = new Set(['run.completed', 'run.failed']);
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

/** Thrown at the runner's next wait when its run is cancelled. */
export class Cancelled extends Error {
  constructor(reason) {
    super(`the run was cancelled: ${reason}`);
    this.reason = reason;
  }
}

/** The runner did something that the protocol does not allow. */
export class RunnerError extends Error {}

/** How much a run may have on the way: by count and by encoded bytes. */
class Window {
  #sizes = []; // of the results that are not committed yet, oldest first
  #bytes = 0;
  #committed = 0;
  #limits;

  constructor(limits) {
    this.#limits = limits;
  }

  fits(size) {
    return this.#sizes.length < this.#limits.windowResults && this.#bytes + size <= this.#limits.windowBytes;
  }

  add(size) {
    this.#sizes.push(size);
    this.#bytes += size;
  }

  /** Committed through `sequence`; an older number takes nothing back. */
  commit(sequence) {
    for (; this.#committed < sequence && this.#sizes.length > 0; this.#committed += 1) {
      this.#bytes -= this.#sizes.shift();
    }
  }
}

export class Run {
  #channel;
  #runner;
  #window;
  #limits;
  #abort = new AbortController();
  #sequence = 0;
  #live = true;
  #told = false; // the runner has seen its cancel
  #roomMade = null; // wakes the result that waits for credit
  #ended;
  #end;

  constructor({ channel, logs, limits, runner, request }) {
    this.#channel = channel;
    this.#runner = runner;
    this.#limits = limits;
    this.#window = new Window(limits);
    this.id = request.context.run_id;
    this.#ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    this.calls = new ApiCalls(channel, this);
    this.context = contextOf(this, request, logs);
  }

  get live() {
    return this.#live;
  }

  get signal() {
    return this.#abort.signal;
  }

  /** Resolves with the answer to `run/start`. */
  start() {
    this.#drive();
    return this.#ended;
  }

  credit(sequence) {
    this.#window.commit(sequence);
    this.#roomMade?.();
  }

  cancel(reason) {
    if (this.signal.aborted || !this.#live) return;
    this.calls.giveUpAll();
    this.#abort.abort(new Cancelled(reason));
    this.#roomMade?.();
    const grace = setTimeout(() => this.#close(), LIMITS.cancelGraceMs);
    this.#ended.then(() => clearTimeout(grace));
  }

  /** Every wait of the runner goes through here: a cancel ends the waits there are, and leaves later ones alone. */
  interruptible(promise) {
    if (this.#told) return promise;
    return new Promise((resolve, reject) => {
      const stop = () => {
        this.#told = true;
        reject(this.signal.reason);
      };
      if (this.signal.aborted) stop();
      this.signal.addEventListener('abort', stop, { once: true });
      promise.then(resolve, reject).finally(() => this.signal.removeEventListener('abort', stop));
    });
  }

  async #drive() {
    let terminal;
    try {
      terminal = await this.#pump(this.#runner.run(this.context));
      terminal ??= this.signal.aborted ? failure(this.signal.reason) : completion();
    } catch (error) {
      terminal = failure(this.signal.aborted ? this.signal.reason : error);
    }
    if (!this.#live) return; // abandoned meanwhile: a dead run says nothing
    try {
      this.calls.giveUpAll();
      this.#sendTerminal(terminal);
    } finally {
      this.#close();
    }
  }

  /** Sends what the runner yields; returns its terminal result, or nothing when it just ended. */
  async #pump(results) {
    let step = await results.next();
    while (!step.done) {
      if (this.#live && !TERMINAL.has(step.value?.type)) {
        const trouble = await this.#send(step.value);
        step = trouble ? await results.throw(trouble) : await results.next();
      } else {
        results.return().catch(() => {}); // its finally blocks run, and are not waited for
        return step.value;
      }
    }
    return undefined;
  }

  /** Returns what the runner must hear at its `yield` instead of going on: its cancel, or why this was refused. */
  async #send(result) {
    let text;
    try {
      text = this.#encode(result, this.#sequence + 1);
    } catch (error) {
      return error;
    }
    const size = Buffer.byteLength(text);
    if (this.#told && !this.#runner.capabilities?.interrupt) {
      await new Promise(setImmediate); // swallowed, but a runner that never stops must not hold the loop
      return null;
    }
    for (;;) {
      if (this.signal.aborted && !this.#told) {
        this.#told = true;
        return this.signal.reason;
      }
      if (!this.#live) return null;
      if (this.#window.fits(size)) break;
      await new Promise((resolve) => {
        this.#roomMade = resolve;
      });
    }
    this.#sequence += 1;
    this.#window.add(size);
    this.#channel.notifyEncoded('run/result', text);
    return null;
  }

  /** The terminal result needs no credit. One that cannot be sent is still an end. */
  #sendTerminal(terminal) {
    let text;
    try {
      text = this.#encode(terminal, this.#sequence + 1);
    } catch (error) {
      text = this.#encode(failure(error), this.#sequence + 1);
    }
    this.#sequence += 1;
    this.#channel.notifyEncoded('run/result', text);
  }

  /** The encoded `params` of a result. */
  #encode(result, sequence) {
    assertResult(result);
    const { type, data } = result;
    const text = encode({ run_id: this.id, type, data, sequence, timestamp: Date.now() / 1000 });
    const bytes = Buffer.byteLength(text);
    const most = Math.min(LIMITS.resultBytes, this.#limits.windowBytes);
    if (bytes > most) {
      throw new RunnerError(`a result of ${bytes} bytes is over the limit of ${most}: write it as an artifact`);
    }
    return text;
  }

  #close() {
    this.#live = false;
    this.calls.rejectAll();
    this.#roomMade?.();
    this.#end({ last_sequence: this.#sequence });
  }
}

function assertResult(result) {
  if (!isObject(result) || typeof result.type !== 'string' || !isObject(result.data)) {
    throw new RunnerError('the runner yielded something that is no result: use ctx.delta, ctx.completed or ctx.result');
  }
}

const completion = (reason = 'end') => ({ type: 'run.completed', data: { finish_reason: reason } });

function failure(error) {
  const code = error instanceof Cancelled ? error.reason : 'runner.error';
  const said = String(error?.message ?? error);
  const sentence = error instanceof BadFrame ? `a result cannot be sent: ${said}` : said;
  const short = sentence.slice(0, 4096).replace(/[\uD800-\uDBFF]$/, '');
  return { type: 'run.failed', data: { code, error: short, retryable: false } };
}

/** What the runner sees. */
function contextOf(run, request, logs) {
  const { context } = request;
  const named = (id) => (id === undefined ? {} : { message_id: id });
  return Object.freeze({
    request,
    runId: run.id,
    input: context.input ?? {},
    config: context.config ?? {},
    event: context.event,
    signal: run.signal,
    context,
    delta: (text, messageId) => ({
      type: 'message.delta',
      data: { chunk: { role: 'assistant', content: text }, ...named(messageId) },
    }),
    completed: (text, messageId) => ({
      type: 'message.completed',
      data: { message: { role: 'assistant', content: text }, ...named(messageId) },
    }),
    result: (type, data) => ({ type, data }),
    finish: completion,
    fail: (error, code = 'runner.error', retryable = false) => ({
      type: 'run.failed',
      data: { code, error, retryable },
    }),
    call: (action, params, options) => run.interruptible(run.calls.call(action, params, options)),
    stream: (action, params) => run.calls.stream(action, params),
    sleep: (ms) => run.interruptible(new Promise((resolve) => setTimeout(resolve, ms))),
    forever: () => run.interruptible(new Promise(() => {})),
    log: (level, message, fields) => run.live && logs.write(level, message, fields, run.id),
  });
}
