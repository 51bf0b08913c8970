// The scripted runner and the three tools of the conformance kit, on top of worker.mjs.
//
//   bollard conformance -- node examples/workers/node/conformance.mjs
//
// docs/reference/conformance.md defines every step.

import fs from 'node:fs';

import { ApiError, Cancelled, serve } from './worker.mjs';

const json = (value) => JSON.stringify(value);
const codeOf = (error) => (error instanceof ApiError ? error.code : Promise.reject(error));

/** What one run remembers between its steps. */
const newMemory = () => ({ ignoring: false, onCancel: [] });

async function* scripted(ctx) {
  const memory = newMemory();
  try {
    yield* perform(ctx, ctx.config.script ?? [], memory);
  } catch (error) {
    if (!(error instanceof Cancelled)) throw error;
    yield* perform(ctx, memory.onCancel, memory);
    throw error;
  }
}

async function* perform(ctx, steps, memory) {
  for (const step of steps) {
    if (!Object.hasOwn(STEPS, step.do)) throw new Error(`unknown step ${step.do}`);
    try {
      yield* STEPS[step.do](ctx, step, memory);
    } catch (error) {
      if (!(memory.ignoring && error instanceof Cancelled)) throw error;
    }
  }
}

const STEPS = {
  async *delta(ctx, { text = '', repeat = 1, count = 1, message_id: messageId }) {
    for (let sent = 0; sent < count; sent += 1) yield ctx.delta(text.repeat(repeat), messageId);
  },
  async *completed(ctx, { text = '', message_id: messageId }) {
    yield ctx.completed(text, messageId);
  },
  async *result(ctx, { type, data }) {
    yield ctx.result(type, data);
  },
  async *big(ctx, { bytes }) {
    yield ctx.delta('x'.repeat(bytes));
  },
  async *rubbish() {
    yield 42;
  },
  async *finish(ctx, { finish_reason: reason = 'end' }) {
    yield ctx.finish(reason);
  },
  async *fail(ctx, { code = 'runner.error', error = 'failed by script', retryable = false }) {
    yield ctx.fail(error, code, retryable);
  },
  async *raise(ctx, { message = 'raised by script' }) {
    throw new Error(message);
  },

  async *wait(ctx, { ms }, memory) {
    const end = performance.now() + ms;
    // An ignored cancel ends the wait it hits; the rest of the time is waited again.
    for (let left = ms; left > 0; left = end - performance.now()) {
      await ctx.sleep(left).catch((error) => (memory.ignoring ? null : Promise.reject(error)));
    }
  },
  async *wait_forever(ctx, step, memory) {
    do {
      await ctx.forever().catch((error) => (memory.ignoring ? null : Promise.reject(error)));
    } while (memory.ignoring);
  },
  async *block(ctx, { ms }) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  },
  async *ignore_cancel(ctx, step, memory) {
    memory.ignoring = true;
  },
  async *on_cancel(ctx, { steps }, memory) {
    memory.onCancel = steps;
  },

  async *call(ctx, { action, params, catch: handled = true }) {
    const said = await ctx.call(action, params).then(
      (answer) => ({ answer }),
      async (error) => (handled ? { error: await codeOf(error) } : Promise.reject(error)),
    );
    yield ctx.delta(json(said));
  },
  async *call_many(ctx, { action, params }) {
    const calls = params.map((one) =>
      ctx.call(action, one).then(
        (answer) => ({ answer }),
        async (error) => ({ error: await codeOf(error) }),
      ),
    );
    for (const said of await Promise.all(calls)) yield ctx.delta(json(said));
  },
  async *give_up(ctx, { action, params, after_ms: after = 50 }) {
    const giveUp = new AbortController();
    setTimeout(() => giveUp.abort(), after);
    const said = await ctx.call(action, params, { signal: giveUp.signal }).then(
      (answer) => ({ answer }),
      (error) => (giveUp.signal.aborted ? { given_up: true } : Promise.reject(error)),
    );
    yield ctx.delta(json(said));
  },
  async *stream(ctx, { action, params, pause_ms: pause = 0, take = Infinity, hold_after: hold = Infinity }) {
    const texts = [];
    let end = 'closed';
    try {
      for await (const chunk of ctx.stream(action, params)) {
        texts.push(chunk.content ?? '');
        if (texts.length >= hold) await ctx.forever();
        if (texts.length >= take) {
          end = 'left';
          break;
        }
        if (pause > 0) await ctx.sleep(pause);
      }
    } catch (error) {
      end = await codeOf(error);
    }
    yield ctx.delta(json({ texts, end }));
  },

  async *print(ctx, { text }) {
    process.stdout.write(`${text}\n`);
    process.stderr.write(`${text}\n`);
  },
  async *log(ctx, { level = 'info', message, fields = {} }) {
    ctx.log(level, message, fields);
  },
  async *flood_log(ctx, { count, message = 'flood' }) {
    for (let sent = 0; sent < count; sent += 1) ctx.log('info', message, { n: sent });
  },
  async *context(ctx, { paths }) {
    const at = (path) => path.split('.').reduce((value, name) => value?.[name], ctx.context) ?? null;
    yield ctx.delta(json(Object.fromEntries(paths.map((path) => [path, at(path)]))));
  },
  async *environment(ctx) {
    const descriptors = fs.readdirSync('/proc/self/fd').flatMap((number) => {
      try {
        return [{ number: Number(number), target: fs.readlinkSync(`/proc/self/fd/${number}`) }];
      } catch {
        return []; // the listing's own descriptor is gone by now
      }
    });
    yield ctx.delta(json({ variables: Object.keys(process.env).sort(), descriptors }));
  },
  async *exit(ctx, { code = 1 }) {
    process.exit(code);
  },
};

const PERMISSIONS = {
  models: ['stream'],
  history: ['search'],
};

const runner = (name, english, chinese, capabilities) => ({
  name,
  label: { en_US: english, zh_Hans: chinese },
  capabilities,
  permissions: PERMISSIONS,
  config_schema: [{ name: 'script', type: 'json', label: { en_US: 'Script', zh_Hans: '脚本' }, required: true }],
  run: scripted,
});

const text = { type: 'string' };

serve({
  plugin: { author: 'bollard', name: 'conformance', version: '1.0.0' },
  runners: [
    runner('scripted', 'Scripted', '脚本', { streaming: true, interrupt: true, steering: true }),
    runner('stubborn', 'Stubborn', '固执', { streaming: true }),
  ],
  tools: [
    {
      name: 'echo',
      description: 'Says back its text.',
      input_schema: { type: 'object', properties: { text }, required: ['text'], additionalProperties: false },
      risk: 'low',
      call: async ({ text: said }) => ({ text: said }),
    },
    {
      name: 'slow',
      description: 'Answers after the given time.',
      input_schema: {
        type: 'object',
        properties: { ms: { type: 'integer' } },
        required: ['ms'],
        additionalProperties: false,
      },
      risk: 'low',
      call: ({ ms }) => new Promise((resolve) => setTimeout(() => resolve({ waited_ms: ms }), ms)),
    },
    {
      name: 'broken',
      description: 'Fails whenever it is called.',
      input_schema: { type: 'object', properties: {}, additionalProperties: false },
      risk: 'low',
      call: async () => {
        throw new Error('broken by design');
      },
    },
  ],
});
