import { expect, test } from "./host";

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
  await page.getByRole("spinbutton", { name: "Temperature" }).fill("99");
  await page.getByRole("button", { name: "Save agent" }).click();
  await expect(page.getByRole("textbox", { name: "Prompt" })).toHaveValue("Kept.");
});

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
