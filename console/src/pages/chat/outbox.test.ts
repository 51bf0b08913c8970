import { ApiError, type Accepted, type ErrorBody } from "@bollard/client";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Outbox, outboxOf, type Outgoing } from "./outbox";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
  sessionStorage.clear();
});
const message = { conversation: "c", thread: undefined, agent: "demo", text: "hi", files: [], locale: "en_US" };
const accepted: Accepted = { event_id: "evt_1", run_id: "run_1", first: true };
const BUSY: ErrorBody = { code: "conflict", message: "the agent is busy", hint: "retry when its run has ended", details: { reason: "conversation_busy" } };
const unreachable = (): Promise<Accepted> => Promise.reject(new ApiError({ code: "unreachable", message: "no answer", retryable: true }, 0));
const states = (outbox: Outbox): string[] => outbox.messages().map((each) => each.state);
const settled = (): Promise<unknown> => vi.advanceTimersByTimeAsync(0);
const nobody = (): void => undefined;

/** An outbox whose host gives these answers in turn, then accepts. It records the ids and texts that it got. */
function started(...answers: (() => Promise<Accepted>)[]): { outbox: Outbox; sent: [id: string, text: string][]; stop: () => void } {
  const sent: [string, string][] = [];
  const send = ({ id, text }: Outgoing): Promise<Accepted> => {
    sent.push([id, text]);
    return (answers.shift() ?? (() => Promise.resolve(accepted)))();
  };
  const outbox = new Outbox(sessionStorage, send);
  return { outbox, sent, stop: outbox.start(nobody) };
}

it("sends a message without an answer again when the network is back, with the same id and only once", async () => {
  const { outbox, sent } = started(unreachable);
  outbox.add(message);
  await settled();
  expect(outbox.messages()).toMatchObject([{ state: "waiting", problem: { code: "unreachable" } }]);
  globalThis.dispatchEvent(new Event("online"));
  globalThis.dispatchEvent(new Event("online"));
  await settled();
  expect(states(outbox)).toEqual(["sent"]);
  expect(sent.map(([id]) => id)).toEqual([sent[0]?.[0], sent[0]?.[0]]);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(sent).toHaveLength(2);
});

it("sends again by itself, later after each failure, also while the connection looks live", async () => {
  const { outbox, sent, stop } = started(unreachable, unreachable);
  outbox.add(message);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(sent).toHaveLength(2);
  await vi.advanceTimersByTimeAsync(1_900);
  expect(sent).toHaveLength(2);
  await vi.advanceTimersByTimeAsync(100);
  expect(states(outbox)).toEqual(["sent"]);
  stop();
});

it("waits as long as a busy host asks", async () => {
  const { outbox } = started(() => Promise.reject(new ApiError({ code: "overloaded", message: "full", retryable: true, details: { retry_after_s: 5 } }, 429)));
  outbox.add(message);
  await vi.advanceTimersByTimeAsync(4_900);
  expect(states(outbox)).toEqual(["waiting"]);
  await vi.advanceTimersByTimeAsync(100);
  expect(states(outbox)).toEqual(["sent"]);
});

it("keeps the order of a conversation, and holds no other one up", async () => {
  const { outbox, sent } = started(unreachable);
  outbox.add({ ...message, text: "first" });
  outbox.add({ ...message, text: "second" });
  outbox.add({ ...message, conversation: "d", text: "elsewhere" });
  await settled();
  expect(states(outbox)).toEqual(["waiting", "waiting", "sent"]);
  outbox.resume();
  await settled();
  expect(sent.map(([, text]) => text)).toEqual(["first", "elsewhere", "first", "second"]);
});

it("keeps what waits over a reload, and sends it when the page opens", async () => {
  const { outbox, stop } = started(unreachable);
  outbox.add(message);
  await settled();
  stop();
  const reloaded = started();
  await settled();
  expect(states(reloaded.outbox)).toEqual(["sent"]);
  expect(reloaded.sent[0]?.[0]).toBe(outbox.messages()[0]?.id);
});

it("sends nothing after it was stopped", async () => {
  const { outbox, sent, stop } = started(unreachable);
  outbox.add(message);
  await settled();
  stop();
  globalThis.dispatchEvent(new Event("online"));
  await vi.advanceTimersByTimeAsync(60_000);
  expect(sent).toHaveLength(1);
});

it("says that the host rejected a message and why, and does not send it again by itself", async () => {
  const { outbox, sent } = started(() => Promise.reject(new ApiError(BUSY, 409)), () => Promise.resolve({ ...accepted, run_id: null, reason: { code: "no_agent", message: "no such agent", hint: "" } }));
  outbox.add(message);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(outbox.messages()).toMatchObject([{ state: "rejected", problem: BUSY }]);
  expect(new Outbox(sessionStorage, unreachable).messages()).toMatchObject([{ problem: BUSY }]);
  outbox.retry(outbox.messages()[0]?.id ?? "");
  await settled();
  expect(outbox.messages()).toMatchObject([{ state: "rejected", problem: { code: "no_agent" } }]);
  expect(sent[1]?.[0]).not.toBe(sent[0]?.[0]); // the host may have stored the rejection under the old id
});

it("lets a message of an expired session wait for the next sign-in", async () => {
  const { outbox } = started(() => Promise.reject(new ApiError({ code: "unauthenticated", message: "sign in" }, 401)));
  outbox.add(message);
  await settled();
  expect(states(outbox)).toEqual(["waiting"]);
});

it("says what became of a message, as the host says it", async () => {
  const onSent = vi.fn();
  const outbox = new Outbox(sessionStorage, () => Promise.resolve({ ...accepted, steering: { status: "queued", claimed_by_run_id: "run_0" } }));
  outbox.start(onSent);
  outbox.add(message);
  await settled();
  expect(onSent).toHaveBeenCalledWith(expect.objectContaining({ outcome: "absorbed", eventId: "evt_1" }));
});

it("survives a broken storage", () => {
  sessionStorage.setItem("bollard.chat.outbox", "{");
  expect(new Outbox(sessionStorage, unreachable).messages()).toEqual([]);
});

it("belongs to one person in one workspace", () => {
  expect(outboxOf("ann", "default")).toBe(outboxOf("ann", "default"));
  expect(outboxOf("bob", "default")).not.toBe(outboxOf("ann", "default"));
  expect(outboxOf("ann", "other")).not.toBe(outboxOf("ann", "default"));
});
