import { fireEvent, screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState, type ReactNode } from "react";
import { afterEach, expect, it, vi } from "vitest";
import type { Language } from "@/i18n/i18n";
import { show } from "../../../tests/surroundings";
import type { Config, FormItem } from "./form-items";
import { RunnerForm } from "./runner-form";

const WHY = { en_US: "Agreed with the customer.", zh_Hans: "已与客户约定。" };
const item = (name: string, type: string, more: Partial<FormItem> = {}): FormItem => ({ name, type, label: { en_US: name, zh_Hans: `${name}（中文）` }, ...more });
afterEach(() => vi.unstubAllGlobals());

/** Draws a form and returns the newest configuration. */
async function draw(items: readonly FormItem[], { config = {}, problems = {}, language = "en" }: { config?: Config; problems?: Record<string, string>; language?: Language } = {}): Promise<() => Config> {
  let newest = config;
  function Form(): ReactNode {
    const [value, setValue] = useState(config);
    newest = value;
    return <div data-testid="form"><RunnerForm items={items} config={value} onChange={setValue} problems={problems} /></div>;
  }
  show(<Form />, ["models.read", "knowledge.read", "capabilities.read", "files.read"], ({ path }) => ({ items: path.endsWith("/models") ? [{ model_id: "big", model_type: "llm" }] : [] }), language);
  await screen.findByTestId("form");
  return () => newest;
}

it("connects each problem with its field, also at a checkbox", async () => {
  const items = [item("steps", "integer"), item("loud", "boolean"), item("prompt", "prompt-editor"), item("mode", "select", { options: [{ value: "a" }] })];
  await draw(items, { problems: { steps: "Should be a whole number.", loud: "Should be true or false.", mode: "Should be one of a." } });
  for (const [field, problem] of [[screen.getByRole("spinbutton"), "Should be a whole number."], [screen.getByRole("checkbox"), "Should be true or false."], [screen.getByRole("combobox"), "Should be one of a."]] as const) {
    expect(field.getAttribute("aria-invalid")).toBe("true");
    const described = (field.getAttribute("aria-describedby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent);
    expect(described).toContain(problem);
  }
  expect(screen.getByRole("textbox").getAttribute("aria-invalid")).toBeNull();
});

it("shows the value of a locked field and the reason, and lets nobody change it", async () => {
  const items = [item("region", "string", { default: "eu", locked: WHY }), item("loud", "boolean", { default: true, locked: WHY }), item("units", "select", { default: "m", options: [{ value: "m", label: { en_US: "Metric" } }], locked: WHY })];
  const config = await draw(items, { config: { region: "stale" } });
  const region = screen.getByRole("textbox", { name: "region" });
  expect([region, screen.getByRole("textbox", { name: "loud" }), screen.getByRole("textbox", { name: "units" })].map((each) => (each as HTMLInputElement).value)).toEqual(["eu", "Yes", "Metric"]);
  expect(screen.queryByRole("checkbox")).toBeNull();
  const reason = document.getElementById(region.getAttribute("aria-describedby") ?? "");
  expect(reason?.textContent).toBe("Locked: Agreed with the customer.");
  await userEvent.type(region, "us");
  expect(config()).toEqual({ region: "stale" });
});

it("says in Chinese why a field is locked, in lines for a list", async () => {
  await draw([item("tags", "array[string]", { default: ["a", "b"], locked: WHY })], { language: "zh" });
  const tags = screen.getByRole("textbox", { name: "tags（中文）" });
  expect((tags as HTMLTextAreaElement).value).toBe("a\nb");
  expect(screen.getByText(/已锁定/).textContent).toContain("已与客户约定。");
});

it("shows a display row as text with a button that copies it, and keeps it out of the configuration", async () => {
  const user = userEvent.setup();
  const config = await draw([item("Callback URL", "display", { default: "https://host.test/hooks/<b>x</b>" }), item("name", "string")]);
  const row = screen.getByRole("group", { name: "Callback URL" });
  expect(within(row).getByText("https://host.test/hooks/<b>x</b>")).toBeDefined();
  expect(row.querySelector("b, input")).toBeNull();
  await user.click(within(row).getByRole("button", { name: "Copy" }));
  expect(await navigator.clipboard.readText()).toBe("https://host.test/hooks/<b>x</b>");
  await user.type(screen.getByRole("textbox", { name: "name" }), "ada");
  expect(config()).toEqual({ name: "ada" });
});

it("shows a field while the field that it depends on has the value, and a locked one decides by its own value", async () => {
  await draw([
    item("deep", "boolean", { default: false }), item("depth", "integer", { show_if: { deep: true } }),
    item("mode", "string", { default: "plain", locked: WHY }), item("detail", "text", { show_if: { mode: "full" } }),
  ], { config: { mode: "full" } });
  expect(screen.queryByRole("spinbutton")).toBeNull();
  expect(screen.queryByRole("textbox", { name: "detail" })).toBeNull();
  fireEvent.click(screen.getByRole("checkbox", { name: "deep" }));
  expect(screen.getByRole("spinbutton", { name: "depth" })).toBeDefined();
});

it("hides a secret, and shows a reference to one by its name", async () => {
  const config = await draw([item("key", "secret"), item("token", "secret")], { config: { key: "__kept__", token: "secret:team-token" } });
  const key = screen.getByLabelText("key");
  expect(key.getAttribute("type")).toBe("password");
  expect(screen.getByRole<HTMLInputElement>("textbox", { name: "token" }).value).toBe("secret:team-token");
  await userEvent.clear(key);
  await userEvent.type(key, "secret:other");
  expect(config()).toEqual({ key: "secret:other", token: "secret:team-token" });
});

it("offers the models of the workspace and takes a choice back", async () => {
  const config = await draw([item("model", "llm-model-selector")]);
  await screen.findByRole("option", { name: "big" });
  await userEvent.selectOptions(screen.getByRole("combobox"), "big");
  expect(config()).toEqual({ model: "big" });
  await userEvent.selectOptions(screen.getByRole("combobox"), "None");
  expect(config()).toEqual({});
});
