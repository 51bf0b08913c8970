import AxeBuilder from "@axe-core/playwright";
import type { Page } from "@playwright/test";
import { expect, test as base } from "./host";
import { clerk, finished, waiting } from "./runs-seed";

async function accessible(page: Page): Promise<void> {
  const { violations } = await new AxeBuilder({ page }).analyze();
  expect(violations.filter(({ impact }) => impact === "serious" || impact === "critical").map(({ id, nodes }) => [id, nodes[0]?.html])).toEqual([]);
}

/** Another fixture makes another worker, and that another host: the first test needs one that has not done anything. */
const test = base.extend<object, { untouched: boolean }>({
  untouched: [({ host }, give) => give(host.url !== ""), { scope: "worker", auto: true }],
});
test.describe.configure({ mode: "serial" });

test("a new host says what it is and leads to a first conversation", { tag: "@smoke" }, async ({ page }) => {
  await expect(page.getByRole("heading", { name: "Welcome to Bollard" })).toBeVisible();
  await expect(page.getByRole("link", { name: "Add a model →" })).toHaveAttribute("href", "/models");
  await accessible(page);
  await page.getByRole("link", { name: "Start a conversation", exact: true }).click();
  await expect(page).toHaveURL(/\/chat/);
});

test("the list of runs of a new host leads there too", async ({ page, host }) => {
  await page.goto(`${host.url}/runs`);
  await expect(page.getByRole("heading", { name: "No runs yet" })).toBeVisible();
  await expect(page.getByRole("link", { name: "Start a conversation" })).toHaveAttribute("href", "/chat");
});

test("numbers, what needs attention, and plots with a table behind them", async ({ page, host }) => {
  await clerk(host);
  await finished(host, "demo", "count 3", { conversation: "a" });
  const failed = await finished(host, "demo", "fail", { conversation: "b" });
  await waiting(host, "c");
  await page.goto(host.url);
  await expect(page.getByRole("listitem").filter({ hasText: "Runs in 24 hours" })).toContainText("3");
  await expect(page.getByRole("listitem").filter({ has: page.getByRole("link", { name: "Failed" }) })).toContainText("33.3% of all");
  await expect(page.getByRole("img", { name: "Runs by outcome" })).toBeVisible();
  await page.getByRole("button", { name: "Show as table" }).first().click();
  const table = page.getByRole("table", { name: "Runs by outcome" });
  await expect(table.getByRole("columnheader", { name: "Failed" })).toBeVisible();
  await expect(table.getByRole("row")).toHaveCount(25);
  await accessible(page);
  await expect(page.getByText("1 action waits for consent")).toBeVisible();
  await page.getByRole("link", { name: "Open the last one" }).click();
  await expect(page).toHaveURL(`${host.url}/runs/${failed.run_id}`);
  await page.goBack();
  await page.getByRole("link", { name: "Decide" }).click();
  await expect(page).toHaveURL(`${host.url}/approvals`);
});

test("a new run changes the numbers of an open page", async ({ page, host }) => {
  const card = page.getByRole("listitem").filter({ hasText: "Runs in 24 hours" });
  await expect(card).toContainText("3");
  await finished(host, "echo", "one more", { conversation: "d" });
  await expect(card).toContainText("4");
});

test("on a phone, in the dark and in Chinese, everything fits", async ({ page, host }) => {
  await page.setViewportSize({ width: 360, height: 740 });
  await page.evaluate(() => {
    localStorage.setItem("bollard.theme", "dark");
    localStorage.setItem("bollard.language", "zh");
  });
  await page.goto(host.url);
  await expect(page.getByRole("heading", { name: "需要关注" })).toBeVisible();
  expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)).toBe(0);
  await accessible(page);
});

test("a viewer gets the numbers without what they may not do", async ({ browser, host }) => {
  await host.ask("PUT", "/api/v1/agents/open", { runner_id: "plugin:bollard/demo/default", policy: { audience: { see: { who: "everyone" } } } });
  const context = await browser.newContext();
  const { user, password } = await host.user("vera", "viewer");
  await host.signIn(context, user, password);
  const page = await context.newPage();
  await page.goto(host.url);
  await expect(page.getByText("There is no run yet that you may see.")).toBeVisible();
  await expect(page.getByRole("link", { name: "Start a conversation" })).toHaveCount(0);
  await finished(host, "open", "for everybody", { conversation: "e" });
  await expect(page.getByRole("heading", { name: "Needs attention" })).toBeVisible();
  await expect(page.getByRole("link", { name: "Add a model" })).toHaveCount(0);
  await context.close();
});
