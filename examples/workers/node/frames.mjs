// One frame: bytes to a checked JSON value and back. Knows limits and JSON; knows no method and no socket.
//
// JSON.parse alone is not enough for the channel: it takes the last of two equal keys, rounds large integers, accepts
// lone surrogates, and has no limit on depth or size. So `check` walks the text once before anything is built from it.

export const LIMITS = Object.freeze({
  frameBytes: 2 * 1024 * 1024,
  depth: 64,
  nodes: 10_000,
  keyCharacters: 256,
  integerMax: 2n ** 53n,
  resultBytes: 1024 * 1024,
  callBytes: 1024 * 1024,
  windowResults: 256,
  windowBytes: 4 * 1024 * 1024,
  logRecordsPerSecond: 100,
  logRecordsBurst: 400,
  logMessageCharacters: 8 * 1024,
  cancelGraceMs: 5_000,
});

/** A frame that breaks a limit or is no JSON. `message` says which rule. */
export class BadFrame extends Error {}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const STRING_END = /["\\]/g;
const SCALAR = /[^\s,\]}:[{"]+/y;
const INTEGER_DIGITS = 20;
const LONE_SURROGATE = /\p{Surrogate}/u;

/** Strict JSON from the bytes of one frame. */
export function decode(bytes) {
  let text;
  try {
    text = decoder.decode(bytes);
  } catch {
    throw new BadFrame('a frame is not UTF-8');
  }
  check(text);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new BadFrame(`a frame is not JSON: ${error.message}`);
  }
}

/** JSON text that any strict peer accepts, or a BadFrame: what we would refuse, we do not send. */
export function encode(value) {
  const text = JSON.stringify(value);
  if (text === undefined) throw new BadFrame('the value has no JSON form');
  check(text);
  return text;
}

/** Depth, nodes, keys, integers and surrogates of a JSON text. Its grammar is left to JSON.parse. */
function check(text) {
  const open = []; // one entry per open container: the Set of its keys, or null for an array
  let nodes = 0;
  let keyNext = false;
  const count = () => {
    nodes += 1;
    if (nodes > LIMITS.nodes) throw new BadFrame(`a frame has more than ${LIMITS.nodes} values`);
  };
  let at = 0;
  while (at < text.length) {
    const character = text[at];
    if (character === '"') {
      const end = stringEnd(text, at);
      if (keyNext) {
        rememberKey(open.at(-1), textOf(text, at, end));
        keyNext = false;
      } else {
        count();
        textOf(text, at, end);
      }
      at = end;
    } else if (character === '{' || character === '[') {
      count();
      open.push(character === '{' ? new Set() : null);
      if (open.length > LIMITS.depth) throw new BadFrame(`a frame is nested deeper than ${LIMITS.depth}`);
      keyNext = character === '{';
      at += 1;
    } else if (character === '}' || character === ']') {
      open.pop();
      keyNext = false;
      at += 1;
    } else if (character === ',') {
      keyNext = open.at(-1) instanceof Set;
      at += 1;
    } else {
      SCALAR.lastIndex = at;
      const scalar = SCALAR.exec(text);
      if (scalar) {
        count();
        checkNumber(scalar[0]);
      }
      at = scalar ? SCALAR.lastIndex : at + 1;
    }
  }
}

/** The index after the closing quote of the string that starts at `start`. */
function stringEnd(text, start) {
  STRING_END.lastIndex = start + 1;
  for (;;) {
    const found = STRING_END.exec(text);
    if (!found) throw new BadFrame('a string has no end');
    if (found[0] === '"') return STRING_END.lastIndex;
    STRING_END.lastIndex += 1; // the escaped character cannot end the string
  }
}

/** The value of a string token. Only escapes can hide a lone surrogate, so plain strings cost nothing. */
function textOf(text, start, end) {
  const inside = text.slice(start + 1, end - 1);
  if (!inside.includes('\\')) return inside;
  let value;
  try {
    value = JSON.parse(text.slice(start, end));
  } catch {
    throw new BadFrame('a string has a wrong escape');
  }
  if (LONE_SURROGATE.test(value)) throw new BadFrame('a string has a lone surrogate');
  return value;
}

function rememberKey(keys, key) {
  if (key.length > LIMITS.keyCharacters && [...key].length > LIMITS.keyCharacters) {
    throw new BadFrame(`a key is longer than ${LIMITS.keyCharacters} characters`);
  }
  if (keys.has(key)) throw new BadFrame(`the key ${JSON.stringify(key)} appears twice in one object`);
  keys.add(key);
}

function checkNumber(token) {
  if (/^-?\d+$/.test(token)) {
    const value = token.length <= INTEGER_DIGITS ? BigInt(token) : Infinity; // a long one is not worth converting
    if (value > LIMITS.integerMax || value < -LIMITS.integerMax) {
      throw new BadFrame(`the integer ${token.slice(0, 40)} is outside ±2^53`);
    }
  } else if (/^-?\d/.test(token) && !Number.isFinite(Number(token))) {
    throw new BadFrame(`the number ${token.slice(0, 40)} is not finite`);
  }
}

/** Cuts a byte stream into lines. One over the limit is skipped to its end, so that a bad frame costs one frame. */
export class LineSplitter {
  #pieces = [];
  #held = 0;
  #skipping = false;

  /** Calls `onLine(bytes)` for each whole line and `onOversize()` once for each line that is too long. */
  push(chunk, onLine, onOversize) {
    let start = 0;
    for (;;) {
      const end = chunk.indexOf(10, start);
      const piece = chunk.subarray(start, end === -1 ? chunk.length : end);
      this.#hold(piece, onOversize);
      if (end === -1) return;
      const line = this.#take();
      if (line) onLine(line);
      start = end + 1;
    }
  }

  #hold(piece, onOversize) {
    if (this.#skipping) return;
    this.#held += piece.length;
    this.#pieces.push(piece);
    if (this.#held > LIMITS.frameBytes) {
      this.#skipping = true;
      this.#pieces = [];
      onOversize();
    }
  }

  #take() {
    const line = this.#skipping ? null : Buffer.concat(this.#pieces);
    this.#pieces = [];
    this.#held = 0;
    this.#skipping = false;
    return line;
  }
}
