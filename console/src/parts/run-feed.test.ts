import { ApiError, type StreamOptions, type StreamRecord } from "@bollard/client";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { RunFeed, RunFeeds } from "./run-feed";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const delta = (seq: number, content: string, epoch = 1): StreamRecord => ({
  id: `${epoch}.${seq}`, type: "message.delta", data: { seq, epoch, type: "message.delta", data: { chunk: { content } }, created_at: 0 },
});
const ended = (seq: number): StreamRecord => ({ id: `1.${seq}`, type: "run.ended", data: { seq, epoch: 1, type: "run.ended", data: { status: "completed" }, created_at: 0 } });
const gap = (reason: string): StreamRecord => ({ id: undefined, type: "gap", data: { type: "gap", data: { first: 1, last: 2, reason } } });

/** A stream that plays one list of records per connection and remembers the positions that it was asked for. */
function script(...connections: (readonly StreamRecord[] | ApiError)[]): { stream: (url: string, options: StreamOptions) => AsyncGenerator<StreamRecord>; asked: (string | undefined)[] } {
  const asked: (string | undefined)[] = [];
  return {
    asked,
    async *stream(_url, options) {
      asked.push(options.after);
      const next = connections[asked.length - 1] ?? [];
      if (next instanceof ApiError) throw next;
      for (const record of next) yield await Promise.resolve(record);
    },
  };
}
const text = (feed: RunFeed): string => feed.progress().blocks.map((block) => (block.kind === "text" ? block.text : "")).join("|");
const options = (): { signal: AbortSignal; headers: Record<string, string>; onSignedOut: () => void } => ({ signal: new AbortController().signal, headers: {}, onSignedOut: vi.fn() });

it("shows the records of one frame together, and the end at once", async () => {
  const feed = new RunFeed("run_1");
  const seen = vi.fn();
  feed.subscribe(seen);
  const { stream } = script([delta(1, "a"), delta(2, "b"), delta(3, "c"), ended(4)]);
  await feed.follow({ ...options(), stream });
  expect(text(feed)).toBe("abc");
  expect(feed.progress().status).toBe("completed");
  expect(seen).toHaveBeenCalledTimes(1);
});

it("resumes after the last record that it has", async () => {
  const feed = new RunFeed("run_1");
  await feed.follow({ ...options(), stream: script([delta(1, "a"), delta(2, "b")]).stream });
  const { stream, asked } = script([delta(3, "c"), ended(4)]);
  await feed.follow({ ...options(), stream });
  expect(asked).toEqual(["1.2"]);
  expect(text(feed)).toBe("abc");
});

it("reads everything again when shown records are void", async () => {
  const feed = new RunFeed("run_1");
  const { stream, asked } = script([delta(1, "kept "), delta(2, "void"), gap("uncommitted")], [delta(1, "kept ", 1), delta(2, "new", 2), { ...ended(3), data: { ...ended(3).data, epoch: 2 } }]);
  await feed.follow({ ...options(), stream });
  expect(asked).toEqual([undefined, undefined]);
  expect(text(feed)).toBe("kept new");
});

it("says that retention dropped a part", async () => {
  const feed = new RunFeed("run_1");
  await feed.follow({ ...options(), stream: script([gap("retention"), delta(3, "rest"), ended(4)]).stream });
  expect(feed.progress()).toMatchObject({ incomplete: true, status: "completed" });
});

it("waits for the next sign-in and goes on", async () => {
  const feed = new RunFeed("run_1");
  const { stream, asked } = script([delta(1, "a")], new ApiError({ code: "unauthenticated", message: "expired" }, 401), [delta(2, "b"), ended(3)]);
  const given = options();
  await feed.follow({ ...given, stream });
  const done = feed.follow({ ...given, stream });
  await vi.advanceTimersByTimeAsync(2_000);
  await done;
  expect(given.onSignedOut).toHaveBeenCalledOnce();
  expect(asked).toEqual([undefined, "1.1", "1.1"]);
  expect(text(feed)).toBe("ab");
});

it("keeps the error of a run that may not be read", async () => {
  const feed = new RunFeed("run_1");
  await feed.follow({ ...options(), stream: script(new ApiError({ code: "not_found", message: "there is no such run" }, 404)).stream });
  expect(feed.error()?.code).toBe("not_found");
});

it("keeps a bounded number of ended feeds", async () => {
  const feeds = new RunFeeds();
  for (let number = 0; number < 80; number += 1) await feeds.open(`run_${number}`).follow({ ...options(), stream: script([ended(1)]).stream });
  expect(feeds.find("run_0")).toBeUndefined();
  expect(feeds.find("run_79")).toBeDefined();
});
