import { fireEvent, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState, type ReactNode } from "react";
import { afterEach, expect, it, vi } from "vitest";
import { show } from "../../../tests/surroundings";
import { SchemaForm, type FieldNames, type SchemaFormProps } from "./schema-form";
import type { Fields, Schema } from "./schema";

const names: FieldNames = { label: (path) => path, help: (path) => (path === "url" ? "Begins with `https`." : undefined), value: (_, value) => `value ${value}` };
const schema: Schema = {
  type: "object",
  required: ["url"],
  properties: {
    url: { type: "string" },
    enabled: { type: "boolean", default: true },
    mode: { type: "string", enum: ["a", "b"] },
    rules: { type: "object", properties: { count: { type: "integer" } } },
    agent: { type: "string" },
  },
};
afterEach(() => vi.unstubAllGlobals());

async function draw(more: Partial<SchemaFormProps> = {}, start: Fields = {}): Promise<() => Fields> {
  let newest = start;
  function Form(): ReactNode {
    const [value, setValue] = useState(start);
    newest = value;
    return <div data-testid="form"><SchemaForm schema={schema} value={value} onChange={setValue} names={names} {...more} /></div>;
  }
  show(<Form />, [], () => ({}));
  await screen.findByTestId("form");
  return () => newest;
}

const describedBy = (field: HTMLElement): (string | null | undefined)[] => (field.getAttribute("aria-describedby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent);

it("connects each problem with its field by path, also at a checkbox and inside an object", async () => {
  await draw({ problems: { url: "Is not an address.", enabled: "Cannot be switched off.", "rules.count": "Should be a whole number." } });
  const wrong = [screen.getByRole("textbox", { name: /url/ }), screen.getByRole("checkbox", { name: "enabled" }), screen.getByRole("spinbutton", { name: "rules.count" })];
  expect(wrong.map((field) => field.getAttribute("aria-invalid"))).toEqual(["true", "true", "true"]);
  expect(wrong.map((field) => describedBy(field).at(-1))).toEqual(["Is not an address.", "Cannot be switched off.", "Should be a whole number."]);
  expect(describedBy(wrong[0] as HTMLElement)[0]).toBe("Begins with https.");
  expect(screen.getByRole("combobox", { name: "mode" }).getAttribute("aria-invalid")).toBeNull();
});

it("shows a fixed field and lets nobody change it", async () => {
  await draw({ fixed: ["url", "enabled"] }, { url: "https://a.example" });
  expect(screen.getByRole<HTMLInputElement>("textbox", { name: /url/ }).disabled).toBe(true);
  expect(screen.getByRole<HTMLInputElement>("checkbox", { name: "enabled" }).disabled).toBe(true);
});

it("leaves out a hidden field, keeps an empty required one for the host to refuse, and removes what is emptied", async () => {
  const value = await draw({ hidden: ["rules"] }, { url: "x", mode: "a", agent: "ada" });
  expect(screen.queryByRole("spinbutton")).toBeNull();
  await userEvent.clear(screen.getByRole("textbox", { name: /url/ }));
  await userEvent.clear(screen.getByRole("textbox", { name: "agent" }));
  await userEvent.selectOptions(screen.getByRole("combobox", { name: "mode" }), "value b");
  expect(value()).toEqual({ url: "", mode: "b" });
});

it("offers the ids of other resources, and removes an object that has become empty", async () => {
  const value = await draw({ choices: { agent: ["ada", "ben"] } });
  await userEvent.selectOptions(screen.getByRole("combobox", { name: "agent" }), "value ben");
  const count = screen.getByRole("spinbutton", { name: "rules.count" });
  fireEvent.change(count, { target: { value: "3" } });
  expect(value()).toEqual({ agent: "ben", rules: { count: 3 } });
  fireEvent.change(count, { target: { value: "" } });
  expect(value()).toEqual({ agent: "ben" });
});
