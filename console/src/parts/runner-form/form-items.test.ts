import { expect, it } from "vitest";
import { isShown, localized, type FormItem } from "./form-items";

const item = (name: string, show_if?: Record<string, unknown>, initial?: unknown): FormItem => ({ name, type: "string", label: {}, default: initial, ...(show_if === undefined ? {} : { show_if }) });

it("shows an item while each field has the wanted value, or one of a list", () => {
  const items = [item("mode", undefined, "a"), item("detail", { mode: "a" }), item("other", { mode: ["b", "c"] })];
  const shown = (config: Record<string, unknown>): string[] => items.filter((each) => isShown(each, items, config)).map((each) => each.name);
  expect(shown({})).toEqual(["mode", "detail"]);
  expect(shown({ mode: "c" })).toEqual(["mode", "other"]);
});

it("hides what depends on a hidden item", () => {
  const items = [item("a"), item("b", { a: 1 }, 2), item("c", { b: 2 })];
  expect(items.filter((each) => isShown(each, items, {})).map((each) => each.name)).toEqual(["a"]);
});

it("ends a cycle", () => {
  const items = [item("a", { b: 1 }, 1), item("b", { a: 1 }, 1)];
  expect(items.every((each) => isShown(each, items, {}))).toBe(true);
});

it("distinguishes 1 and true", () => {
  const items = [item("a", undefined, 1), item("b", { a: true })];
  expect(items.filter((each) => isShown(each, items, {}))).toHaveLength(1);
});

it("takes the reader's language, else English, else any", () => {
  expect(localized({ en_US: "Prompt", zh_Hans: "提示词" }, "zh")).toBe("提示词");
  expect(localized({ en_US: "Prompt" }, "zh")).toBe("Prompt");
  expect(localized({ de_DE: "Eingabe" }, "en")).toBe("Eingabe");
});
