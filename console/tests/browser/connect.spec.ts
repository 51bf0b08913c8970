import { expect, test } from "./host";

test("a schedule is previewed, saved, fired and paused", { tag: "@smoke" }, async ({ page, host }) => {
  await page.goto(`${host.url}/schedules`);
  await page.getByRole("button", { name: "Add schedule" }).click();
  await page.getByRole("textbox", { name: "Id" }).fill("morning");
  await page.getByRole("textbox", { name: "Cron" }).fill("0 9 * * 1-5");
  await page.getByLabel("Time zone").fill("Asia/Shanghai");
  await expect(page.getByRole("region", { name: "Next runs" }).getByRole("listitem")).toHaveCount(5);
  await expect(page.getByRole("region", { name: "Next runs" })).toContainText("9:00:00 AM GMT+8");
  await page.getByRole("combobox", { name: "Agent" }).selectOption("demo");
  await page.getByRole("textbox", { name: "Input" }).fill("count 2");
  await page.getByRole("button", { name: "Save schedule" }).click();
  const row = page.getByRole("row", { name: /morning/ });
  await row.getByRole("button", { name: "Run now" }).click();
  await expect(row.getByRole("link", { name: "Open run" })).toBeVisible();
  await row.getByRole("button", { name: "Pause" }).click();
  await expect(row.getByText("Paused")).toBeVisible();
});

test("a cron expression that cannot be read is named at its field, and nothing is saved", async ({ page, host }) => {
  await page.goto(`${host.url}/schedules`);
  await page.getByRole("button", { name: "Add schedule" }).click();
  await page.getByRole("textbox", { name: "Id" }).fill("broken");
  await page.getByRole("textbox", { name: "Cron" }).fill("61 * * * *");
  await expect(page.getByRole("region", { name: "Next runs" }).getByRole("alert")).toBeVisible();
  await page.getByRole("button", { name: "Save schedule" }).click();
  await expect(page.getByRole("dialog").getByRole("alert").first()).toContainText("invalid_argument");
  const { items } = await host.ask<{ items: { schedule_id: string }[] }>("GET", "/api/v1/schedules");
  expect(items.map((each) => each.schedule_id)).not.toContain("broken");
});

test("a webhook route is made, tested with a sample, and starts an agent", async ({ page, host }) => {
  await page.goto(`${host.url}/webhooks`);
  await page.getByRole("button", { name: "Add webhook" }).click();
  await page.getByRole("textbox", { name: "Id" }).fill("github");
  await page.getByRole("combobox", { name: "Agent" }).selectOption("echo");
  await page.getByRole("textbox", { name: "Input" }).fill("{body.issue.title}");
  await page.getByRole("button", { name: "Save webhook" }).click();
  await expect(page.getByText("Enter this secret at the sender now")).toBeVisible();
  await page.getByRole("button", { name: "Done" }).click();
  await page.getByRole("button", { name: "github" }).click();
  await page.getByRole("tab", { name: "Test" }).click();
  await page.getByRole("button", { name: "Preview only" }).click();
  await expect(page.getByText('"text": "It breaks"')).toBeVisible();
  await page.getByRole("button", { name: "Send for real" }).click();
  await page.getByRole("tab", { name: "Last requests" }).click();
  await expect(page.getByRole("row", { name: /Accepted/ }).first()).toBeVisible();
});

test("a binding is saved, and the tester says who gets an event and why", async ({ page, host }) => {
  await page.goto(`${host.url}/bindings`);
  await page.getByRole("button", { name: "Add binding" }).click();
  await page.getByRole("textbox", { name: "Id" }).fill("arrivals");
  await page.getByRole("dialog").getByRole("combobox", { name: "Agent" }).selectOption("echo");
  await page.getByRole("button", { name: "Add filter" }).click();
  await page.getByRole("textbox", { name: "Values" }).fill("door");
  await page.getByRole("button", { name: "Save binding" }).click();
  await expect(page.getByRole("row", { name: /arrivals/ })).toContainText("source is door");
  await page.getByRole("textbox", { name: "Source" }).fill("door");
  await page.getByRole("button", { name: "Preview" }).click();
  await expect(page.getByRole("paragraph").filter({ hasText: "echo gets the event" })).toBeVisible();
  await page.getByRole("textbox", { name: "Source" }).fill("window");
  await page.getByRole("button", { name: "Preview" }).click();
  await expect(page.getByRole("paragraph").filter({ hasText: "No agent gets the event" })).toBeVisible();
});
