import { ApiError, type Accepted } from "@bollard/client";
import { afterEach, expect, it, vi } from "vitest";
import { Outbox, type Outgoing } from "./outbox";

afterEach(() => sessionStorage.clear());
const message = { conversation: "c", thread: undefined, agent: "demo", text: "hi", files: [], locale: "en_US" };
const accepted: Accepted = { event_id: "evt_1", run_id: "run_1", first: true };
const states = (outbox: Outbox): string[] => outbox.messages().map((each) => each.state);

it("keeps a failed message and sends it again with the same id", async () => {
  const ids: string[] = [];
  const send = vi.fn((sent: Outgoing) => {
    ids.push(sent.id);
    return ids.length === 1 ? Promise.reject(new ApiError({ code: "unreachable", message: "no answer" }, 0)) : Promise.resolve(accepted);
  });
  const outbox = new Outbox(sessionStorage, send, () => undefined);
  outbox.add(message);
  await vi.waitFor(() => expect(states(outbox)).toEqual(["failed"]));
  const reloaded = new Outbox(sessionStorage, send, () => undefined);
  reloaded.retry(outbox.messages()[0]?.id ?? "");
  await vi.waitFor(() => expect(states(reloaded)).toEqual(["sent"]));
  expect(ids[1]).toBe(ids[0]);
});

it("says what became of a message, as the host says it", async () => {
  const onSent = vi.fn();
  const outbox = new Outbox(sessionStorage, () => Promise.resolve({ ...accepted, steering: { status: "queued", claimed_by_run_id: "run_0" } }), onSent);
  outbox.add(message);
  await vi.waitFor(() => expect(onSent).toHaveBeenCalledWith(expect.objectContaining({ outcome: "absorbed", eventId: "evt_1" })));
});

it("sends again by itself what a reload interrupted", async () => {
  const outbox = new Outbox(sessionStorage, () => new Promise(() => undefined), () => undefined);
  outbox.add(message);
  const send = vi.fn(() => Promise.resolve(accepted));
  const reloaded = new Outbox(sessionStorage, send, () => undefined);
  reloaded.resume();
  await vi.waitFor(() => expect(states(reloaded)).toEqual(["sent"]));
  expect(send).toHaveBeenCalledWith(expect.objectContaining({ id: outbox.messages()[0]?.id }));
});

it("survives a broken storage", () => {
  sessionStorage.setItem("bollard.chat.outbox", "{");
  expect(new Outbox(sessionStorage, () => Promise.resolve(accepted), () => undefined).messages()).toEqual([]);
});
