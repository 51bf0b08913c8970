import type { Locator, Page } from "@playwright/test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, Host, test } from "./host";

test("an agent is made from the form of its runner, says what it may do, and answers", { tag: "@smoke" }, async ({ page, host }) => {
  await page.goto(`${host.url}/agents`);
  await page.getByRole("button", { name: "New agent" }).click();
  await page.getByRole("textbox", { name: "Id" }).fill("helper");
  await page.getByRole("button", { name: "Continue" }).click();
  await page.getByRole("textbox", { name: "Prompt" }).fill("Answer in one word.");
  await expect(page.getByRole("heading", { name: "What it may do" })).toBeVisible();
  await page.getByRole("button", { name: "Save agent" }).click();
  await expect(page.getByText("Saved helper.")).toBeVisible();
  const saved = await host.ask<{ config: { prompt: string } }>("GET", "/api/v1/agents/helper");
  expect(saved.config.prompt).toBe("Answer in one word.");
  await page.getByRole("link", { name: "Chat", exact: true }).last().click();
  await page.getByRole("textbox", { name: /Message/ }).fill("hello");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("log").getByText("Open run")).toBeVisible();
  await expect(page.getByRole("log").getByRole("alert")).toHaveCount(0);
});

test("what an agent may reach is chosen, said in sentences, and saved", async ({ page, host }) => {
  await page.goto(`${host.url}/agents`);
  await page.getByRole("button", { name: "New agent" }).click();
  await page.getByRole("textbox", { name: "Id" }).fill("counter");
  await page.getByRole("button", { name: "Continue" }).click();
  const access = page.getByRole("region", { name: "Access" });
  await expect(access.getByRole("checkbox", { name: /tools\.call/ })).toBeChecked();
  await access.getByRole("checkbox", { name: /agents\.call/ }).uncheck();
  await access.getByRole("checkbox", { name: "tool:builtin/calculate" }).check();
  await expect(page.getByRole("listitem").filter({ hasText: "calculate" })).toBeVisible();
  await page.getByRole("button", { name: "Takes messages while it works." }).click();
  await expect(page.getByLabel("A new message")).toBeFocused();
  await page.getByLabel("A new message").selectOption("reject");
  await page.getByRole("button", { name: "Save agent" }).click();
  await expect(page.getByText("Saved counter.")).toBeVisible();
  const { policy } = await host.ask<{ policy: { access: { permissions: Record<string, string[]>; resources: unknown }; concurrency: { mode: string } } }>("GET", "/api/v1/agents/counter");
  expect(policy.access.resources).toMatchObject({ tools: { add: ["tool:builtin/calculate"] } });
  expect(policy.access.permissions).not.toHaveProperty("agents");
  expect(policy.concurrency.mode).toBe("reject");
});

test("a field that the host refuses is named, and what was typed stays", async ({ page, host }) => {
  await host.ask("PUT", "/api/v1/agents/mistaken", { runner_id: (await host.ask<{ runner_id: string }>("GET", "/api/v1/agents/assistant")).runner_id, label: { en_US: "Mistaken" } });
  await page.goto(`${host.url}/agents/mistaken`);
  await page.getByRole("textbox", { name: "Prompt" }).fill("Kept.");
  await page.getByRole("spinbutton", { name: "Longest answer" }).fill("1.5");
  await page.getByRole("button", { name: "Save agent" }).click();
  const longest = page.getByRole("spinbutton", { name: "Longest answer" });
  await expect(longest).toHaveAttribute("aria-invalid", "true");
  await expect(longest).toHaveAccessibleDescription(/Should be a whole number between/);
  await expect(page.getByRole("alert")).toContainText("config.max_tokens should be a whole number");
  await expect(page.getByRole("alert")).toContainText("Correct this and save again.");
  await expect(page.getByRole("textbox", { name: "Prompt" })).toHaveValue("Kept.");
  await expect(page.getByRole("textbox", { name: "Prompt" })).not.toHaveAttribute("aria-invalid");
  await longest.fill("100");
  await page.getByRole("button", { name: "Save agent" }).click();
  await expect(page.getByText("Saved mistaken.")).toBeVisible();
  await expect(page.getByRole("alert")).toHaveCount(0);
});

test("an agent is made with the keyboard alone", async ({ page, host }) => {
  await page.goto(`${host.url}/agents`);
  await page.getByRole("button", { name: "New agent" }).focus();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("textbox", { name: "Id" })).toBeFocused();
  await page.keyboard.type("typist");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { name: "typist", level: 1 })).toBeVisible();
  await tabTo(page, page.getByRole("textbox", { name: "Prompt" }));
  await page.keyboard.press("Control+A");
  await page.keyboard.type("Typed.");
  await tabTo(page, page.getByRole("checkbox", { name: /agents\.call/ }));
  await page.keyboard.press("Space");
  await tabTo(page, page.getByRole("button", { name: "Save agent" }), "Shift+Tab");
  await page.keyboard.press("Enter");
  await expect(page.getByText("Saved typist.")).toBeVisible();
  const saved = await host.ask<{ config: { prompt: string }; policy: { access: { permissions: Record<string, string[]> } } }>("GET", "/api/v1/agents/typist");
  expect(saved.config.prompt).toBe("Typed.");
  expect(saved.policy.access.permissions).not.toHaveProperty("agents");
});

test("a test conversation beside the form talks to the saved agent, and goes on after a save", async ({ page, host }) => {
  const { runner_id } = await host.ask<{ runner_id: string }>("GET", "/api/v1/agents/assistant");
  const access = { permissions: { models: ["invoke", "stream"], tools: ["detail", "call"], history: ["page"] }, resources: { tools: { add: ["tool:builtin/calculate"] } } };
  await host.ask("PUT", "/api/v1/agents/rehearsed", { runner_id, label: { en_US: "Rehearsed" }, policy: { access } });
  await page.goto(`${host.url}/agents/rehearsed`);
  const panel = page.getByRole("region", { name: "Test" });
  await panel.getByRole("textbox", { name: "Test message" }).fill('call calculate {"expression":"6/2"}');
  await page.keyboard.press("Enter");
  const log = panel.getByRole("log");
  await expect(log.locator("summary", { hasText: "calculate" })).toBeVisible();
  await expect(log.getByRole("status")).toHaveCount(0);
  await expect(panel.getByText("The form has changes.")).toHaveCount(0);
  await page.getByRole("textbox", { name: "Prompt" }).fill("Answer in one word.");
  await expect(panel.getByText("The form has changes. The test talks to the saved agent: save to test them.")).toBeVisible();
  await page.getByRole("button", { name: "Save agent" }).click();
  await expect(page.getByText("Saved rehearsed.")).toBeVisible();
  await expect(panel.getByText("The form has changes.")).toHaveCount(0);
  await panel.getByRole("textbox", { name: "Test message" }).fill("hello");
  await panel.getByRole("button", { name: "Send" }).click();
  await expect(log.getByRole("link", { name: "Open run" })).toHaveCount(2);
  await expect(log.getByRole("status")).toHaveCount(0);
  await expect(log.getByRole("alert")).toHaveCount(0);
  const { items } = await host.ask<{ items: { status: string; conversation_id: string }[] }>("GET", "/api/v1/runs?agent=rehearsed");
  expect(items.map((run) => run.status)).toEqual(["completed", "completed"]);
  expect(new Set(items.map((run) => run.conversation_id)).size).toBe(1);
  await log.getByRole("link", { name: "Open run" }).last().click();
  await expect(page).toHaveURL(/\/runs\/run_/);
});

const PLUGIN = `
from typing import Annotated
from pydantic import BaseModel
from bollard.sdk import Display, Form, RunContext, runner

class Place(BaseModel):
    region: Annotated[str, Form(label={"en_US": "Region", "zh_Hans": "区域"}, locked={"en_US": "The service runs only there.", "zh_Hans": "服务仅在此区域提供。"})] = "eu-central"
    callback: Annotated[Display, Form(label={"en_US": "Callback URL", "zh_Hans": "回调地址"}, description={"en_US": "Enter it at the service.", "zh_Hans": "请填写到该服务中。"})] = "{host_url}/hooks/{workspace}"
    loud: Annotated[bool, Form(label={"en_US": "Loud", "zh_Hans": "大声"})] = False

@runner(label={"en_US": "Placed", "zh_Hans": "定点"})
async def placed(ctx: RunContext[Place]):
    yield ctx.completed(f"in {ctx.config.region}")
`;

test("a locked field shows its value and the reason, and a display row is copied", async ({ browser }) => {
  const folder = mkdtempSync(join(tmpdir(), "bollard-forms-"));
  const host = new Host();
  try {
    writeFileSync(join(folder, "placed.py"), PLUGIN);
    await host.start(["--plugins", join(folder, "placed.py")]);
    const { user, password } = await host.user("ann", "admin");
    const context = await browser.newContext({ permissions: ["clipboard-read", "clipboard-write"] });
    await host.signIn(context, user, password);
    const page = await context.newPage();
    await page.goto(`${host.url}/agents/placed`);
    const region = page.getByRole("textbox", { name: "Region" });
    await expect(region).toHaveValue("eu-central");
    await expect(region).toHaveAttribute("readonly");
    await expect(region).toHaveAccessibleDescription("Locked: The service runs only there.");
    const row = page.getByRole("group", { name: "Callback URL" });
    await expect(row).toContainText(`${host.url}/hooks/default`);
    await row.getByRole("button", { name: "Copy" }).click();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(`${host.url}/hooks/default`);
    await page.getByRole("checkbox", { name: "Loud" }).check();
    await page.getByRole("button", { name: "Save your own version" }).click();
    await expect(page.getByText("Saved placed.")).toBeVisible();
    expect((await host.ask<{ config: unknown }>("GET", "/api/v1/agents/placed")).config).toEqual({ region: "eu-central", loud: true });
    await page.getByRole("textbox", { name: "Test message" }).fill("where?");
    await page.keyboard.press("Enter");
    await expect(page.getByRole("log")).toContainText("in eu-central");
    await context.close();
  } finally {
    await host.stop();
    host.remove();
    rmSync(folder, { recursive: true, force: true });
  }
});

const TABS = 150;

/** Presses Tab until the element has the focus, as a person without a mouse does. */
async function tabTo(page: Page, target: Locator, key: "Tab" | "Shift+Tab" = "Tab"): Promise<void> {
  await expect(target).toBeVisible();
  for (let pressed = 0; pressed < TABS; pressed += 1) {
    if (await target.evaluate((element) => element === document.activeElement)) return;
    await page.keyboard.press(key);
  }
  await expect(target).toBeFocused();
}

test("a viewer reads an agent and cannot change it", async ({ browser, host }) => {
  const { user, password } = await host.user("vera", "viewer");
  const context = await browser.newContext();
  await host.signIn(context, user, password);
  const page = await context.newPage();
  await page.goto(`${host.url}/agents/demo`);
  await expect(page.getByRole("heading", { name: "demo", level: 1 })).toBeVisible();
  await expect(page.getByRole("button", { name: /Save/ })).toHaveCount(0);
  await context.close();
});
