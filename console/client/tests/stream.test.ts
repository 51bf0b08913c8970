import { describe, expect, it } from "vitest";
import { ApiError } from "../src/errors";
import { SseParser } from "../src/sse";
import { resumableStream, type StreamRecord } from "../src/stream";

describe("SseParser", () => {
  it("reads events that arrive in pieces, at every cut", () => {
    const text = ': alive\n\nid: 1.1\nevent: run.created\ndata: {"a":1}\n\nid: 1.2\r\nevent: message.delta\r\ndata: {"b":\r\ndata: 2}\r\n\r\n';
    for (let cut = 0; cut <= text.length; cut += 1) {
      const parser = new SseParser();
      const events = [...parser.push(text.slice(0, cut)), ...parser.push(text.slice(cut))];
      expect(events, `cut at ${cut}`).toEqual([
        { id: "1.1", event: "run.created", data: '{"a":1}' },
        { id: "1.2", event: "message.delta", data: '{"b":\n2}' },
      ]);
    }
  });

  it("never emits half an event", () => {
    expect(new SseParser().push("id: 1.1\nevent: x\ndata: {}")).toEqual([]);
  });
});

/** A host that gives each connection one body, in turn, and remembers the positions that were asked for. */
class Connections {
  readonly asked: (string | null)[] = [];
  constructor(private readonly bodies: (string | (() => Response))[]) {}

  fetch = (_: unknown, init?: RequestInit): Promise<Response> => {
    this.asked.push(new Headers(init?.headers).get("last-event-id"));
    const body = this.bodies.shift();
    if (body === undefined) return Promise.reject(new TypeError("no network"));
    return Promise.resolve(typeof body === "function" ? body() : new Response(body));
  };
}

async function read(connections: Connections, after?: string): Promise<StreamRecord[]> {
  const records: StreamRecord[] = [];
  for await (const record of resumableStream("/stream", { fetch: connections.fetch, wait: () => Promise.resolve(), last: "run.ended", after })) records.push(record);
  return records;
}

const event = (seq: number, type = "message.delta"): string => `id: 1.${seq}\nevent: ${type}\ndata: {"seq":${seq}}\n\n`;

describe("resumableStream", () => {
  it("resumes after the last record that it yielded, without a missing or doubled one", async () => {
    const connections = new Connections([event(1) + event(2) + "id: 1.3\nevent: mess", event(3), event(4, "run.ended")]);
    expect((await read(connections)).map((record) => record.data.seq)).toEqual([1, 2, 3, 4]);
    expect(connections.asked).toEqual([null, "1.2", "1.3"]);
  });

  it("begins after a given position", async () => {
    const connections = new Connections([event(9, "run.ended")]);
    await read(connections, "1.8");
    expect(connections.asked).toEqual(["1.8"]);
  });

  it("keeps its position over a gap, which has none", async () => {
    const connections = new Connections([event(1) + 'event: gap\ndata: {"reason":"behind"}\n\n', event(2, "run.ended")]);
    expect((await read(connections)).map((record) => record.type)).toEqual(["message.delta", "gap", "run.ended"]);
    expect(connections.asked).toEqual([null, "1.1"]);
  });

  it("survives a host that is down for a while", async () => {
    const connections = new Connections([event(1), () => new Response("bad gateway", { status: 502 }), event(2, "run.ended")]);
    expect((await read(connections)).map((record) => record.data.seq)).toEqual([1, 2]);
  });

  it("throws an error that a retry cannot mend", async () => {
    const body = JSON.stringify({ error: { code: "not_found", message: "the run does not exist", retryable: false, details: {} } });
    await expect(read(new Connections([() => new Response(body, { status: 404 })]))).rejects.toThrow(ApiError);
  });

  it("ends when it is aborted", async () => {
    const abort = new AbortController();
    const connections = new Connections([event(1)]);
    const records: StreamRecord[] = [];
    for await (const record of resumableStream("/stream", { fetch: connections.fetch, signal: abort.signal, wait: () => Promise.resolve() })) {
      records.push(record);
      abort.abort();
    }
    expect(records).toHaveLength(1);
  });
});
