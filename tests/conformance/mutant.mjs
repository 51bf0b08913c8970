// The node worker with one fault, named on the command line. Test-only: it proves that the kit can fail.

import fs from 'node:fs';

import { Channel } from '../../examples/workers/node/channel.mjs';
import { LineSplitter } from '../../examples/workers/node/frames.mjs';

/** Replaces a method; the new one gets the original first. */
function wrap(target, method, replacement) {
  const original = target[method];
  target[method] = function wrapped(...args) {
    return replacement.call(this, original.bind(this), ...args);
  };
}

/** Changes the handlers that the worker serves, before it serves them. */
const withHandlers = (change) =>
  wrap(Channel.prototype, 'serve', function serve(original, handlers, onClose) {
    const changed = change(handlers, onClose, this) ?? {};
    return original({ ...handlers, ...changed.handlers }, changed.onClose ?? onClose);
  });

/** Changes or drops (null) the results that leave. */
const withResults = (change) =>
  wrap(Channel.prototype, 'notifyEncoded', (original, method, text) => {
    const changed = change(JSON.parse(text));
    if (changed !== null) original(method, JSON.stringify(changed));
  });

/** Drops notifications of one method. */
const without = (dropped) =>
  wrap(Channel.prototype, 'notify', (original, method, params) => {
    if (method !== dropped) original(method, params);
  });

/** The worker credits itself for results of at least so many bytes. */
const creditItself = (bytes) => {
  let credit;
  withHandlers((handlers) => {
    credit = handlers['run/credit'];
  });
  wrap(Channel.prototype, 'notifyEncoded', (original, method, text) => {
    original(method, text);
    const { run_id, sequence } = JSON.parse(text);
    if (text.length >= bytes) queueMicrotask(() => credit({ run_id, sequence }));
  });
};

const TERMINAL = ['run.completed', 'run.failed'];

const MUTANTS = {
  faultless: () => {},
  ignores_credit: () => creditItself(0),
  ignores_bytes: () => creditItself(100_000),
  forgets_terminal: () => withResults((result) => (TERMINAL.includes(result.type) ? null : result)),
  doubles_terminal: () =>
    wrap(Channel.prototype, 'notifyEncoded', (original, method, text) => {
      original(method, text);
      if (TERMINAL.includes(JSON.parse(text).type)) original(method, text);
    }),
  repeats_numbers: () => withResults((result) => ({ ...result, sequence: Math.min(result.sequence, 3) })),
  adds_a_field: () => withResults((result) => ({ ...result, mood: 'good' })),
  answers_dead_ids: () =>
    withHandlers((handlers) => ({
      handlers: { 'run/start': (params) => handlers['run/start'](params).catch(() => ({ last_sequence: 0 })) },
    })),
  prints_on_the_channel: () => {
    const fd = Number(process.env.BOLLARD_CHANNEL_FD);
    process.stdout.write = (text) => fs.writeSync(fd, text);
  },
  ignores_cancel: () => withHandlers(() => ({ handlers: { 'run/cancel': () => {} } })),
  forgets_the_reason: () =>
    withHandlers((handlers) => ({
      handlers: { 'run/cancel': (params) => handlers['run/cancel']({ ...params, reason: 'cancelled' }) },
    })),
  never_abandons: () => {
    const real = globalThis.setTimeout;
    globalThis.setTimeout = (act, ms, ...rest) => real(act, ms === 5000 ? 3_600_000 : ms, ...rest);
  },
  outlives_its_channel: () =>
    withHandlers(() => ({ onClose: () => setInterval(() => {}, 1000) })),
  initializes_again: () =>
    withHandlers((handlers) => {
      let first;
      return {
        handlers: {
          initialize: (params) => {
            first ??= handlers.initialize(params);
            return first;
          },
        },
      };
    }),
  speaks_any_version: () =>
    withHandlers((handlers) => ({
      handlers: { initialize: (params) => handlers.initialize({ ...params, protocol: 1 }) },
    })),
  takes_duplicate_keys: () =>
    wrap(LineSplitter.prototype, 'push', (original, chunk, ...rest) =>
      original(Buffer.from(chunk.toString().replaceAll('{"k":1,"k":2}', '{"k":2}')), ...rest),
    ),
  dies_of_a_bad_frame: () =>
    wrap(LineSplitter.prototype, 'push', (original, chunk, onLine, onOversize) =>
      original(chunk, (line) => { JSON.parse(line.toString()); onLine(line); }, onOversize),
    ),
  credits_ahead: () =>
    withHandlers((handlers, onClose, channel) => ({
      handlers: {
        'api/chunk': (chunk) => {
          channel.notify('api/credit', { stream_id: chunk.stream_id, index: chunk.index });
          handlers['api/chunk'](chunk);
        },
      },
    })),
  keeps_given_up_calls: () => without('api/cancel'),
  mixes_up_answers: () => {
    const waiting = [];
    wrap(Channel.prototype, 'request', (original, method, params) => {
      const { id, answer } = original(method, params);
      const swapped = new Promise((resolve) => waiting.push(resolve));
      answer.then((result) => waiting.shift()(result));
      return { id, answer: swapped };
    });
  },
  floods_logs: () => {
    const real = performance.now.bind(performance);
    performance.now = () => real() * 1000;
  },
  pings_after_runs: () =>
    withHandlers((handlers) => {
      let active = 0;
      const idle = () => (active === 0 ? {} : new Promise(setImmediate).then(idle));
      return {
        handlers: {
          ping: idle,
          'run/start': (params) => {
            active += 1;
            return handlers['run/start'](params).finally(() => (active -= 1));
          },
        },
      };
    }),
  hides_tool_failures: () =>
    withHandlers((handlers) => ({
      handlers: { 'tool/call': async (params) => ({ ...(await handlers['tool/call'](params)), is_error: false }) },
    })),
  forgets_the_run_of_a_call: () =>
    withHandlers((handlers) => {
      const short = (params) => ({ ...params, call_id: params.call_id.split('.').at(-1) });
      return {
        handlers: {
          'tool/call': (params) => handlers['tool/call'](short(params)),
          'tool/cancel': (params) => handlers['tool/cancel'](short(params)),
        },
      };
    }),
  wrong_runner_id: () =>
    withHandlers((handlers) => ({
      handlers: {
        'runners/list': () => {
          const list = handlers['runners/list']({});
          list.runners[0].manifest.id = 'plugin:somebody/else/default';
          return list;
        },
      },
    })),
};

MUTANTS[process.argv[2]]();
await import('../../examples/workers/node/conformance.mjs');
