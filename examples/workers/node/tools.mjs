// The plugin's tools: listed, called beside each other, cancelled, and ended when their time is up.

import { RPC, RpcError } from './channel.mjs';

const asText = (value) => (typeof value === 'string' ? value : JSON.stringify(value));
const failed = (sentence) => ({ content: [{ type: 'text', text: sentence }], is_error: true });

export class Tools {
  #tools;
  #active = new Map(); // call_id -> AbortController

  constructor(tools) {
    this.#tools = new Map(tools.map((tool) => [tool.name, tool]));
  }

  get busy() {
    return this.#active.size > 0;
  }

  list() {
    return { tools: [...this.#tools.values()].map(({ call: _, ...definition }) => definition) };
  }

  async call({ call_id: id, tool: name, arguments: given, timeout_ms: timeout, context }) {
    const tool = this.#tools.get(name);
    if (!tool) throw new RpcError(RPC.invalidParams, `this plugin has no tool ${name}`);
    if (typeof id !== 'string' || this.#active.has(id)) {
      throw new RpcError(RPC.invalidParams, 'call_id must be a string that is not in use');
    }
    const wrong = wrongArgument(tool.input_schema, given);
    if (wrong) return failed(wrong);
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(new Error(`${name} took longer than ${timeout} ms`)), timeout);
    this.#active.set(id, abort);
    try {
      const { signal } = abort;
      return answerOf(await Promise.race([tool.call(given, { signal, context }), whenAborted(signal)]));
    } catch (error) {
      return failed(String(error?.message ?? error));
    } finally {
      clearTimeout(timer);
      this.#active.delete(id);
    }
  }

  cancel(id) {
    this.#active.get(id)?.abort(new Error('the call was cancelled'));
  }

  cancelAll() {
    for (const id of this.#active.keys()) this.cancel(id);
  }
}

/** A tool returns text, or any JSON value, which is then the structured answer too. */
function answerOf(value) {
  const content = [{ type: 'text', text: asText(value ?? '') }];
  return typeof value === 'string' || value === undefined
    ? { content, is_error: false }
    : { content, structured: value, is_error: false };
}

function whenAborted(signal) {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }));
}

/** Enough of JSON Schema for flat arguments: required names and scalar types. */
function wrongArgument({ properties = {}, required = [] }, given) {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return 'arguments must be an object';
  const missing = required.find((name) => !Object.hasOwn(given, name));
  if (missing) return `the argument ${missing} is missing`;
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(properties, name)) return `there is no argument ${name}`;
    if (!hasType(value, properties[name].type)) return `the argument ${name} must be of type ${properties[name].type}`;
  }
  return null;
}

function hasType(value, type) {
  if (type === 'integer') return Number.isInteger(value);
  if (type === 'string' || type === 'number' || type === 'boolean') return typeof value === type;
  return true;
}
