// A Bollard worker in JavaScript: one plugin, its runners and tools, served on the inherited channel.
//
//   import { serve } from './worker.mjs';
//   serve({ plugin: { author, name, version }, runners: [...], tools: [...] });
//
// Needs Node 18 or newer and nothing else. README.md says what a runner and a tool look like.

import { Channel, RPC, RpcError } from './channel.mjs';
import { LIMITS } from './frames.mjs';
import { Logs } from './logs.mjs';
import { Run } from './run.mjs';
import { Tools } from './tools.mjs';

export { ApiError } from './calls.mjs';
export { Cancelled, RunnerError } from './run.mjs';

const PROTOCOL = 1;
const WORKER = Object.freeze({ name: 'bollard-node-example', version: '0.1.0', language: 'javascript' });
const ENDED_RUN_IDS = 1024; // remembered; the host never uses an id again
const LAST_WORDS_MS = 500; // for the terminal results of runs that a shutdown cancels

export function serve(plugin, channel = Channel.inherited()) {
  return new Worker(plugin, channel).serve();
}

class Worker {
  #plugin;
  #channel;
  #logs;
  #tools;
  #runners;
  #limits = null; // stated by the host; null until `initialize`
  #runs = new Map();
  #ended = new Set(); // the newest ENDED_RUN_IDS ids: a second run/start of one is refused
  #closing = false;

  constructor({ plugin, runners = [], tools = [] }, channel) {
    this.#plugin = plugin;
    this.#channel = channel;
    this.#logs = new Logs(channel);
    this.#tools = new Tools(tools);
    this.#runners = new Map(runners.map((runner) => [this.#idOf(runner), runner]));
  }

  serve() {
    // A promise that a runner forgot must not take the other runs down with it.
    process.on('unhandledRejection', (error) =>
      this.#logs.write('error', `a promise was rejected and nobody waited for it: ${error?.message ?? error}`),
    );
    const initialized = (handler) => (params) => {
      if (!this.#limits) throw new RpcError(RPC.invalidRequest, 'initialize comes first');
      return handler(params);
    };
    const methods = {
      'runners/list': () => ({ runners: [...this.#runners].map(([id, runner]) => this.#discovery(id, runner)) }),
      'run/start': (params) => this.#start(params),
      'run/cancel': ({ run_id: id, reason }) => this.#runs.get(id)?.cancel(reason ?? 'cancelled'),
      'run/credit': ({ run_id: id, sequence }) => this.#runs.get(id)?.credit(sequence),
      'api/chunk': (chunk) => this.#runs.forEach((run) => run.calls.chunk(chunk)),
      'tools/list': () => this.#tools.list(),
      'tool/call': (params) => this.#tools.call(params),
      'tool/cancel': ({ call_id: id }) => this.#tools.cancel(id),
      shutdown: ({ grace_s: grace = LIMITS.cancelGraceMs / 1000 }) => this.#shutDown(grace * 1000),
    };
    const handlers = Object.fromEntries(Object.entries(methods).map(([name, serve]) => [name, initialized(serve)]));
    this.#channel.serve(
      { ...handlers, initialize: (params) => this.#initialize(params), ping: () => ({}) },
      () => this.#channelLost(),
    );
  }

  #initialize({ protocol, limits = {} }) {
    if (this.#limits) throw new RpcError(RPC.invalidRequest, 'this channel is initialized already');
    if (protocol !== PROTOCOL) {
      const old = Number.isInteger(protocol) && protocol < PROTOCOL ? 'the host' : `the worker ${WORKER.name}`;
      throw new RpcError(
        RPC.invalidRequest,
        `this worker speaks protocol ${PROTOCOL} and the host speaks ${protocol}: upgrade ${old}`,
      );
    }
    this.#limits = {
      windowResults: Math.min(LIMITS.windowResults, limits.window_results ?? Infinity),
      windowBytes: Math.min(LIMITS.windowBytes, limits.window_bytes ?? Infinity),
    };
    this.#channel.limitFrames(limits.frame_bytes ?? LIMITS.frameBytes);
    return {
      protocol: PROTOCOL,
      worker: WORKER,
      plugin: this.#plugin,
      limits: {
        frame_bytes: LIMITS.frameBytes,
        window_results: LIMITS.windowResults,
        window_bytes: LIMITS.windowBytes,
      },
    };
  }

  #idOf(runner) {
    return `plugin:${this.#plugin.author}/${this.#plugin.name}/${runner.name}`;
  }

  #discovery(id, { name, label, description, capabilities = {}, permissions = {}, config_schema = [], metadata = {} }) {
    return {
      plugin_author: this.#plugin.author,
      plugin_name: this.#plugin.name,
      plugin_version: this.#plugin.version,
      runner_name: name,
      manifest: { id, name, label, description, capabilities, permissions, config_schema, metadata },
    };
  }

  /** Answered when the run has ended. */
  async #start(request) {
    assertRequest(request);
    const id = request.context.run_id;
    const runner = this.#runners.get(request.runner_id);
    if (!runner || runner.name !== request.runner_name) {
      const { runner_id: wanted, runner_name: name } = request;
      throw new RpcError(RPC.invalidParams, `this plugin has no runner ${wanted} named ${name}`);
    }
    if (this.#closing) throw new RpcError(RPC.invalidRequest, 'this worker is shutting down');
    if (this.#runs.has(id)) throw new RpcError(RPC.invalidRequest, `run ${id} is active already`);
    if (this.#ended.has(id)) throw new RpcError(RPC.invalidRequest, `run ${id} has ended`);
    const run = new Run({ channel: this.#channel, logs: this.#logs, limits: this.#limits, runner, request });
    this.#runs.set(id, run);
    try {
      return await run.start();
    } finally {
      this.#runs.delete(id);
      this.#ended.add(id);
      if (this.#ended.size > ENDED_RUN_IDS) this.#ended.delete(this.#ended.values().next().value);
    }
  }

  /** Lets runs and tool calls end within the grace, cancels the rest, and ends the process. */
  async #shutDown(graceMs) {
    this.#closing = true;
    if (!(await this.#idleWithin(graceMs))) {
      this.#cancelAll();
      await this.#idleWithin(LAST_WORDS_MS);
    }
    setImmediate(() => this.#channel.end().then(() => process.exit(0)));
  }

  /** Nobody listens any more: runners get their grace to clean up, then the process ends. */
  async #channelLost() {
    this.#closing = true;
    this.#cancelAll();
    await this.#idleWithin(LIMITS.cancelGraceMs);
    process.exit(0);
  }

  #cancelAll() {
    this.#runs.forEach((run) => run.cancel('cancelled'));
    this.#tools.cancelAll();
  }

  /** True as soon as nothing is under way, false when the time is up. */
  async #idleWithin(ms) {
    const end = performance.now() + ms;
    while (this.#runs.size > 0 || this.#tools.busy) {
      if (performance.now() >= end) return false;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    return true;
  }
}

function assertRequest({ runner_id: id, runner_name: name, context }) {
  const wrong = (what) => new RpcError(RPC.invalidParams, `run/start: ${what}`);
  if (typeof id !== 'string' || typeof name !== 'string') throw wrong('runner_id and runner_name must be strings');
  if (typeof context !== 'object' || context === null) throw wrong('context must be an object');
  if (typeof context.run_id !== 'string') throw wrong('context.run_id must be a string');
  for (const field of ['trigger', 'event', 'delivery']) {
    const value = context[field];
    if (typeof value !== 'object' || value === null) throw wrong(`context.${field} must be an object`);
  }
}
