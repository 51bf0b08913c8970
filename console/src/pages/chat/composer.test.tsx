import { fireEvent, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { show } from "../../../tests/surroundings";
import { Composer, type ComposerProps } from "./composer";

const base: ComposerProps = { place: { conversation: "c" }, agentName: "Desk", mode: "steer", active: false, stopping: false, onSend: () => undefined, onStop: undefined };
beforeEach(() => {
  vi.stubGlobal("matchMedia", () => ({ matches: true }));
});
afterEach(() => {
  vi.unstubAllGlobals();
  sessionStorage.clear();
});
async function area(props: Partial<ComposerProps> = {}): Promise<HTMLElement> {
  show(<Composer {...base} {...props} />, ["runs.create"], () => ({}));
  return await screen.findByRole("textbox", { name: "Message" });
}

it("sends with Enter, breaks with Shift-Enter, and never while an input method composes", async () => {
  const onSend = vi.fn();
  const box = await area({ onSend });
  await userEvent.type(box, "one{Shift>}{Enter}{/Shift}two");
  fireEvent.keyDown(box, { key: "Enter", isComposing: true });
  fireEvent.keyDown(box, { key: "Enter", keyCode: 229 });
  fireEvent.keyDown(box, { key: "Enter", repeat: true });
  expect(onSend).not.toHaveBeenCalled();
  await userEvent.type(box, "{Enter}");
  expect(onSend).toHaveBeenCalledExactlyOnceWith("one\ntwo", []);
  expect((box as HTMLTextAreaElement).value).toBe("");
});

it("sends nothing when there is nothing", async () => {
  const onSend = vi.fn();
  await userEvent.type(await area({ onSend }), "   {Enter}");
  expect(onSend).not.toHaveBeenCalled();
});

it("has two faces while a run is active", async () => {
  const onStop = vi.fn();
  await area({ active: true, onStop });
  expect(screen.getByRole("button", { name: "Steer" })).toBeDefined();
  await userEvent.click(screen.getByRole("button", { name: "Stop" }));
  expect(onStop).toHaveBeenCalledOnce();
});

it("says how the agent treats a message during a run", async () => {
  await area({ active: true, mode: "queue", onStop: undefined });
  expect(screen.getByRole("button", { name: "Queue" })).toBeDefined();
  expect(screen.queryByRole("button", { name: "Stop" })).toBeNull();
});

it("sends nothing during a run of an agent that takes no message then, and keeps the text", async () => {
  const onSend = vi.fn();
  const box = await area({ active: true, mode: "reject", onSend });
  await userEvent.type(box, "later{Enter}");
  expect(onSend).not.toHaveBeenCalled();
  expect((box as HTMLTextAreaElement).value).toBe("later");
  expect(screen.getByText("This agent takes no message while a run is active.")).toBeDefined();
});

it("stops a run of another agent without steering it", async () => {
  await area({ active: false, onStop: () => undefined });
  expect(screen.getByRole("button", { name: "Stop" })).toBeDefined();
  expect(screen.getByRole("button", { name: "Send" })).toBeDefined();
});

it("keeps what was typed for its conversation", async () => {
  sessionStorage.setItem("bollard.chat.draft.c", JSON.stringify({ text: "from before" }));
  expect((await area() as HTMLTextAreaElement).value).toBe("from before");
});
