// JSON-RPC 2.0 over the inherited socket: requests, responses, notifications. Knows nothing of runs or tools.

import net from 'node:net';

import { BadFrame, decode, encode, LIMITS, LineSplitter } from './frames.mjs';

const CHANNEL_FD_VARIABLE = 'BOLLARD_CHANNEL_FD';

export const RPC = Object.freeze({
  parseError: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internalError: -32603,
});

/** An error that travels as a JSON-RPC error. */
export class RpcError extends Error {
  constructor(code, message, data) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const isId = (value) => typeof value === 'string' || Number.isInteger(value);

export class Channel {
  #socket;
  #splitter = new LineSplitter();
  #handlers = {};
  #asked = new Map(); // id of our request -> { resolve, reject }
  #nextId = 1;
  #frameBytes = LIMITS.frameBytes;
  #open = true;

  /** The socket from the host. It must not be one of the three standard ones. */
  static inherited() {
    const fd = Number(process.env[CHANNEL_FD_VARIABLE]);
    delete process.env[CHANNEL_FD_VARIABLE]; // not for the children of this process
    if (!Number.isInteger(fd) || fd < 3) {
      throw new Error(`${CHANNEL_FD_VARIABLE} names no inherited socket: this program is started by a Bollard host`);
    }
    return new Channel(new net.Socket({ fd, readable: true, writable: true }));
  }

  constructor(socket) {
    this.#socket = socket;
  }

  /** `handlers[method](params)` answers requests and takes notifications; `onClose` is called once. */
  serve(handlers, onClose) {
    this.#handlers = handlers;
    const closed = () => {
      if (!this.#open) return;
      this.#open = false;
      for (const { reject } of this.#asked.values()) reject(new Error('the channel is closed'));
      this.#asked.clear();
      onClose();
    };
    this.#socket.on('data', (chunk) =>
      this.#splitter.push(
        chunk,
        (line) => this.#take(line),
        () => this.#refuse('a frame is larger than 2 MiB'),
      ),
    );
    this.#socket.on('end', closed);
    this.#socket.on('close', closed);
    this.#socket.on('error', closed);
  }

  /** The host may take smaller frames than we could send. */
  limitFrames(bytes) {
    this.#frameBytes = Math.min(this.#frameBytes, bytes);
  }

  notify(method, params) {
    this.#write({ jsonrpc: '2.0', method, params });
  }

  /** A notification whose `params` are JSON text already, so that what was measured is what is sent. */
  notifyEncoded(method, paramsText) {
    this.#writeText(`{"jsonrpc":"2.0","method":${JSON.stringify(method)},"params":${paramsText}}`);
  }

  /** Returns `{ id, answer }`: the id is what `api/cancel` names. */
  request(method, params) {
    const id = this.#nextId++;
    const answer = new Promise((resolve, reject) => this.#asked.set(id, { resolve, reject }));
    answer.catch(() => {}); // whoever gave up the call no longer listens
    try {
      this.#write({ jsonrpc: '2.0', id, method, params });
    } catch (error) {
      this.forget(id);
      throw error;
    }
    return { id, answer };
  }

  /** The answer of a given-up request has no effect. */
  forget(id) {
    this.#asked.delete(id);
  }

  /** Resolves when what was written has left. */
  end() {
    this.#open = false;
    return new Promise((resolve) => this.#socket.end(resolve));
  }

  #take(line) {
    let message;
    try {
      message = decode(line);
    } catch (error) {
      if (!(error instanceof BadFrame)) throw error;
      this.#refuse(error.message);
      return;
    }
    if (!isObject(message) || message.jsonrpc !== '2.0') {
      this.#reply(null, new RpcError(RPC.invalidRequest, 'this is no JSON-RPC 2.0 message; batches are not spoken'));
    } else if (typeof message.method === 'string') {
      this.#dispatch(message);
    } else if (isId(message.id)) {
      this.#settle(message);
    }
  }

  #dispatch({ id, method, params = {} }) {
    const handler = Object.hasOwn(this.#handlers, method) ? this.#handlers[method] : null;
    if (!isId(id)) {
      // A notification has no answer: what is unknown or wrong in it is ignored.
      if (handler && isObject(params)) this.#quietly(() => handler(params));
      return;
    }
    const serve = async () => {
      if (!handler) throw new RpcError(RPC.methodNotFound, `this worker has no method ${method}`);
      if (!isObject(params)) throw new RpcError(RPC.invalidParams, 'params must be an object');
      return handler(params);
    };
    serve().then(
      (result) => this.#reply(id, null, result ?? {}),
      (error) => this.#reply(id, error),
    );
  }

  #settle({ id, result, error }) {
    const waiting = this.#asked.get(id);
    if (!waiting) return; // a stray or late answer
    this.#asked.delete(id);
    if (isObject(error)) waiting.reject(new RpcError(error.code, String(error.message ?? ''), error.data));
    else waiting.resolve(result);
  }

  #reply(id, error, result) {
    const body = error
      ? { error: { code: error.code ?? RPC.internalError, message: error.message || 'the worker failed' } }
      : { result };
    this.#quietly(() => this.#write({ jsonrpc: '2.0', id, ...body }));
  }

  /** A frame that does not parse has no id to answer, and no effect. */
  #refuse(why) {
    this.#reply(null, new RpcError(RPC.parseError, why));
  }

  #quietly(act) {
    try {
      act();
    } catch (error) {
      process.stderr.write(`worker: ${error.message}\n`);
    }
  }

  #write(message) {
    this.#writeText(encode(message));
  }

  #writeText(text) {
    if (!this.#open) return;
    const bytes = Buffer.byteLength(text);
    if (bytes > this.#frameBytes) throw new BadFrame(`a frame of ${bytes} bytes is over ${this.#frameBytes}`);
    // Corked until the end of this turn of the loop: what is ready together leaves in one send.
    if (this.#socket.writableCorked === 0) {
      this.#socket.cork();
      process.nextTick(() => this.#socket.uncork());
    }
    this.#socket.write(text);
    this.#socket.write('\n');
  }
}
