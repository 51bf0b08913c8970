import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { show } from "../../tests/surroundings";
import "./palette"; // loaded before, so that no test waits for its chunk
import { Palette } from "./palette-dialog";
import { bestOf, type Target } from "./palette-match";

beforeEach(() => {
  Element.prototype.scrollIntoView = () => undefined; // jsdom has no layout
  vi.stubGlobal("matchMedia", () => ({ matches: false }));
});
afterEach(() => {
  vi.unstubAllGlobals();
  document.documentElement.classList.remove("dark");
});
const listed = async (): Promise<string[]> => within(await screen.findByRole("listbox")).queryAllByRole("option").map((row) => row.textContent);
const answer = ({ path }: { path: string }): unknown => ({
  items: path.endsWith("/models") ? [{ model_id: "gpt-fast" }] : path.endsWith("/bindings") ? [{ binding_id: "issues" }] : path.endsWith("/agents") ? [{ agent_id: "desk" }] : [],
});

it("offers only what the rights allow", async () => {
  const requests = show(<Palette open onOpenChange={() => undefined} />, ["runs.create"], answer);
  const names = (await listed()).join("\n");
  for (const name of ["Start a conversation", "Use the dark theme", "切换到中文", "Sign out", "Chat", "Settings"]) expect(names).toContain(name);
  for (const name of ["Create an agent", "Add a model", "Install from the catalogue", "Runs", "Audit", "API keys"]) expect(names).not.toContain(name);
  expect(requests).toEqual([]);
});

it("finds agents, models, bindings and lists of resources by a part of their name", async () => {
  show(<Palette open onOpenChange={() => undefined} />, ["runs.create", "agents.read", "models.read", "bindings.read", "keys.read"], answer);
  const box = await screen.findByRole("combobox");
  for (const [typed, found] of [["fast", "gpt-fastModel"], ["iss", "issuesBinding"], ["api k", "API keysList"], ["desk", "deskAgent"]] as const) {
    await userEvent.clear(box);
    await userEvent.type(box, typed);
    await waitFor(async () => expect(await listed()).toContain(found));
  }
});

it("switches theme and language at once", async () => {
  const onOpenChange = vi.fn();
  show(<Palette open onOpenChange={onOpenChange} />, [], answer);
  await userEvent.type(await screen.findByRole("combobox"), "dark{Enter}");
  expect(document.documentElement.classList.contains("dark")).toBe(true);
  await userEvent.clear(screen.getByRole("combobox"));
  await userEvent.type(screen.getByRole("combobox"), "中文{Enter}");
  expect(await screen.findByPlaceholderText(/页面/)).toBeDefined();
  expect(onOpenChange.mock.calls).toEqual([[false], [false]]);
});

it("puts names that begin with the words first, and finds words in any order", () => {
  const target = (name: string, also = name): Target => ({ id: name, kind: "page", name, also, icon: null, path: "/" });
  const names = (typed: string): string[] => bestOf([target("Overruns"), target("Past runs"), target("Runs"), target("运行器", "runners")], typed).map((each) => each.name);
  expect(names("run")).toEqual(["Runs", "运行器", "Past runs", "Overruns"]);
  expect(names("runs past")).toEqual(["Past runs"]);
  expect(names("nothing")).toEqual([]);
});
