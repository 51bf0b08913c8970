/** Reads the records of one run into its timeline, and follows the run until its end. */
import { listRunRecords, resumableStream, type AgentRun, type AgentRunRecord, type StreamRecord } from "@bollard/client";
import { useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { useSession } from "@/api/session";
import { object, text } from "./span";
import { Timeline } from "./timeline";

export interface RunView {
  timeline: Timeline;
  /** Grows whenever the timeline has changed in place. */
  version: number;
  /** Whether the pages of the past are read; afterwards the stream goes on. */
  loading: boolean;
  error: unknown;
}

/** After these, records that were shown are void. */
const VOID = new Set(["uncommitted", "unknown", "behind"]);
const PAGE = 100;

/** The records of a run: pages of the past, then the stream until the end. Readers hear about changes at most once per frame. */
export class RunRecords {
  private view: RunView = { timeline: new Timeline(), version: 0, loading: true, error: undefined };
  private readonly listeners = new Set<() => void>();
  private frame = 0;

  constructor(
    private readonly runId: string,
    private readonly workspace: string,
  ) {}

  readonly snapshot = (): RunView => this.view;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Reads until the end of the run or until the returned function is called. */
  readonly start = (): (() => void) => {
    const abort = new AbortController();
    void this.read(abort.signal).catch((error: unknown) => {
      if (!abort.signal.aborted) this.change({ error, loading: false });
    });
    return () => {
      abort.abort();
      cancelAnimationFrame(this.frame);
      this.frame = 0;
    };
  };

  private async read(signal: AbortSignal): Promise<void> {
    for (;;) {
      this.change({ timeline: new Timeline(), loading: true, error: undefined });
      await this.readPages(signal);
      this.change({ loading: false });
      if (this.view.timeline.ended || signal.aborted || (await this.readStream(signal))) return;
    }
  }

  private async readPages(signal: AbortSignal): Promise<void> {
    let cursor: string | undefined;
    do {
      const page = await listRunRecords({ path: { run_id: this.runId }, query: { limit: PAGE, ...(cursor === undefined ? {} : { cursor }) }, signal });
      for (const record of page.items) this.view.timeline.add(record);
      this.flush();
      cursor = page.has_more ? page.next_cursor : undefined;
    } while (cursor !== undefined);
  }

  /** Whether the stream came to its end; otherwise what was shown is void, and everything is read again. */
  private async readStream(signal: AbortSignal): Promise<boolean> {
    const url = `/api/v1/runs/${encodeURIComponent(this.runId)}/stream`;
    const options = { after: this.view.timeline.position, last: "run.ended", signal, headers: { "bollard-workspace": this.workspace } };
    for await (const record of resumableStream(url, options)) {
      if (record.type === "gap") {
        if (VOID.has(text(object(record.data.data).reason) ?? "")) return false;
      } else {
        this.view.timeline.add(recordOf(record));
        this.flush();
      }
    }
    return true;
  }

  private flush(): void {
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.change({});
    });
  }

  private change(part: Partial<RunView>): void {
    this.view = { ...this.view, ...part, version: this.view.version + 1 };
    for (const listener of this.listeners) listener();
  }
}

/** The data of a stream's record is the whole record. */
function recordOf(record: StreamRecord): AgentRunRecord {
  return record.data as unknown as AgentRunRecord;
}

export function useRecords(runId: string): RunView {
  const { workspace } = useSession();
  const records = useMemo(() => new RunRecords(runId, workspace), [runId, workspace]);
  useEffect(() => records.start(), [records]);
  return useSyncExternalStore(records.subscribe, records.snapshot);
}

const TICK_MS = 1_000;

/** The end of the axis: the end of the run, or now while it goes on. */
export function useUntil(run: AgentRun, { timeline }: RunView): number {
  const [now, setNow] = useState(() => Date.now() / 1_000);
  const ended = timeline.ended || run.finished_at != null;
  useEffect(() => {
    if (ended) return;
    const timer = setInterval(() => setNow(Date.now() / 1_000), TICK_MS);
    return () => clearInterval(timer);
  }, [ended]);
  return Math.max(ended ? run.finished_at ?? 0 : now, timeline.until);
}
