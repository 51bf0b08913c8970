/** Follows the streams of runs and keeps their progress. Records of one frame are applied together, so that a fast stream stays smooth. */
import { ApiError, resumableStream, type StreamOptions, type StreamRecord, type StreamStatus } from "@bollard/client";
import { object } from "./record-values";
import type { RunRecord } from "./run-block";
import { advance, NOTHING_YET, type RunProgress } from "./run-progress";

export interface FollowOptions {
  signal: AbortSignal;
  headers: Record<string, string>;
  /** The session has expired. The feed goes on after the next sign-in. */
  onSignedOut: () => void;
  stream?: (url: string, options: StreamOptions) => AsyncGenerator<StreamRecord>;
}

const SIGN_IN_WAIT_MS = 2_000;
/** After these the records that were shown are void: the committed ones are read from the beginning. */
const VOID: readonly unknown[] = ["uncommitted", "unknown"];

export class RunFeed {
  private shown: RunProgress = NOTHING_YET;
  private base: RunProgress = NOTHING_YET;
  private after: string | undefined;
  private pending: RunRecord[] = [];
  private frame: number | undefined;
  private readonly listeners = new Set<() => void>();
  private streamStatus: StreamStatus = "connecting";
  private failed: ApiError | undefined;

  constructor(readonly runId: string) {}

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };
  readonly progress = (): RunProgress => this.shown;
  readonly status = (): StreamStatus => this.streamStatus;
  /** Why the stream cannot be read, if a retry does not help. */
  readonly error = (): ApiError | undefined => this.failed;

  /** Reads until the run ends or the signal aborts. A later call resumes after the last record. */
  async follow(options: FollowOptions): Promise<void> {
    while (!options.signal.aborted && this.base.end === undefined) {
      try {
        if (await this.read(options)) return;
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        if (error.status !== 401) {
          this.failed = error;
          this.notify();
          return;
        }
        options.onSignedOut();
        await pause(SIGN_IN_WAIT_MS, options.signal);
      }
    }
  }

  /** False if the stream has to be read again from the beginning. */
  private async read({ signal, headers, stream = resumableStream }: FollowOptions): Promise<boolean> {
    const onStatus = (status: StreamStatus): void => {
      this.streamStatus = status;
      this.notify();
    };
    this.failed = undefined;
    for await (const record of stream(`/api/v1/runs/${this.runId}/stream`, { after: this.after, signal, headers, last: "run.ended", onStatus })) {
      if (record.type === "gap") {
        const { reason } = object(record.data.data);
        if (VOID.includes(reason)) {
          this.restart();
          return false;
        }
        if (reason === "retention") this.base = { ...this.base, incomplete: true };
        continue;
      }
      this.after = record.id ?? this.after;
      this.push(record.data as unknown as RunRecord);
    }
    return true;
  }

  private push(record: RunRecord): void {
    this.pending.push(record);
    if (record.type === "run.ended") this.flush(); // a hidden page draws no frames
    else this.frame ??= requestAnimationFrame(this.flush);
  }

  private readonly flush = (): void => {
    if (this.frame !== undefined) cancelAnimationFrame(this.frame);
    this.frame = undefined;
    this.base = advance(this.base, this.pending);
    this.pending = [];
    this.shown = this.base;
    this.notify();
  };

  private restart(): void {
    this.base = NOTHING_YET; // the old text stays until the first committed record is there
    this.pending = [];
    this.after = undefined;
  }

  private notify(): void {
    for (const listener of this.listeners) listener();
  }
}

const FEEDS_KEPT = 64;

/** The feeds of a page by run. The oldest ended ones are dropped; their records are on disk. */
export class RunFeeds {
  private readonly feeds = new Map<string, RunFeed>();

  find(runId: string): RunFeed | undefined {
    return this.feeds.get(runId);
  }

  open(runId: string): RunFeed {
    const feed = this.feeds.get(runId) ?? new RunFeed(runId);
    this.feeds.set(runId, feed);
    for (const [id, old] of this.feeds) {
      if (this.feeds.size <= FEEDS_KEPT) break;
      if (old.progress().end !== undefined && id !== runId) this.feeds.delete(id);
    }
    return feed;
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    }, { once: true });
  });
}
