// Log records on the channel: limited to a rate, with a counter of what was dropped.

import { LIMITS } from './frames.mjs';

const LEVELS = new Set(['debug', 'info', 'warning', 'error', 'critical']);

export class Logs {
  #channel;
  #tokens = LIMITS.logRecordsBurst;
  #filledAt = performance.now();
  #dropped = 0;

  constructor(channel) {
    this.#channel = channel;
  }

  /** Sends one record, unless there were too many; the number dropped travels with the next one. */
  write(level, message, fields = {}, runId = undefined) {
    if (!this.#take()) {
      this.#dropped += 1;
      return;
    }
    const text = String(message);
    const kept = shorten(text);
    const extra = {
      ...(this.#dropped > 0 ? { dropped: this.#dropped } : {}),
      ...(kept === text ? {} : { cut_characters: [...text].length - [...kept].length }),
    };
    this.#dropped = 0;
    this.#channel.notify('log', {
      level: LEVELS.has(level) ? level : 'info',
      message: kept,
      fields: { ...fields, ...extra },
      ...(runId === undefined ? {} : { run_id: runId }),
    });
  }

  #take() {
    const now = performance.now();
    const earned = ((now - this.#filledAt) / 1000) * LIMITS.logRecordsPerSecond;
    this.#tokens = Math.min(LIMITS.logRecordsBurst, this.#tokens + earned);
    this.#filledAt = now;
    if (this.#tokens < 1) return false;
    this.#tokens -= 1;
    return true;
  }
}

function shorten(text) {
  // Cutting between the halves of a surrogate pair would leave a lone one.
  return text.length <= LIMITS.logMessageCharacters
    ? text
    : text.slice(0, LIMITS.logMessageCharacters).replace(/[\uD800-\uDBFF]$/, '');
}
