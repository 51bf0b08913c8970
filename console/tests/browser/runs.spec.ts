import AxeBuilder from "@axe-core/playwright";
import type { Page } from "@playwright/test";
import { expect, Host, test } from "./host";
import { allow, clerk, finished, longRun, send, SlowChat, until, waiting } from "./runs-seed";

async function accessible(page: Page): Promise<void> {
  const { violations } = await new AxeBuilder({ page }).analyze();
  expect(violations.filter(({ impact }) => impact === "serious" || impact === "critical").map(({ id, nodes }) => [id, nodes[0]?.html])).toEqual([]);
}

/** Nothing is wider than the screen. */
async function fits(page: Page): Promise<void> {
  expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)).toBe(0);
}

async function prefer(page: Page, theme: string, language: string): Promise<void> {
  await page.evaluate(([chosen, spoken]) => {
    localStorage.setItem("bollard.theme", chosen ?? "");
    localStorage.setItem("bollard.language", spoken ?? "");
  }, [theme, language]);
}

test("a run appears in the list by itself, a filter finds it, and it opens with its steps", { tag: "@smoke" }, async ({ page, host }) => {
  await finished(host, "echo", "an earlier message", { conversation: "smoke" });
  await page.goto(`${host.url}/runs`);
  const table = page.getByRole("table", { name: "Runs" });
  await expect(table.getByRole("link", { name: "an earlier message" }).first()).toBeVisible();
  await send(host, "demo", "count 3", { conversation: "smoke" });
  await expect(table.getByRole("link", { name: "count 3" }).first()).toBeVisible();
  await page.getByRole("searchbox", { name: "Search the messages" }).fill("count");
  await expect(page).toHaveURL(/[?&]text=count/);
  await expect(table.getByRole("link", { name: "an earlier message" })).toHaveCount(0);
  await table.getByRole("link", { name: "count 3" }).first().click();
  const tree = page.getByRole("tree");
  await expect(tree.getByRole("treeitem", { name: /^Message 1 2 3.*3 parts/ })).toBeVisible();
  await expect(tree.getByRole("treeitem", { name: /^State count/ })).toBeVisible();
  await expect(page).toHaveTitle("count 3 · Runs · Bollard");
});

test("chips filter by state, agent, channel, person and time, and the address keeps them", async ({ page, host }) => {
  await finished(host, "demo", "fail", { conversation: "chips", actor: { id: "li", name: "李雷" } });
  await finished(host, "echo", "a good one", { conversation: "chips" });
  await page.goto(`${host.url}/runs`);
  const table = page.getByRole("table", { name: "Runs" });
  await page.getByRole("button", { name: "State" }).click();
  await page.getByRole("menuitem", { name: "Failed" }).click();
  await expect(page).toHaveURL(/status=failed/);
  await expect(table.getByRole("link", { name: "a good one" })).toHaveCount(0);
  await page.getByRole("button", { name: "Person" }).click();
  await page.getByRole("menuitem", { name: "李雷" }).click();
  await page.getByRole("button", { name: "Time" }).click();
  await page.getByRole("menuitem", { name: "Last hour" }).click();
  await expect(page).toHaveURL(/time=1h/);
  await expect(table.getByRole("row").filter({ hasText: "李雷" }).first()).toBeVisible();
  await page.reload();
  await expect(page.getByRole("button", { name: "State: Failed" })).toBeVisible();
  await page.getByRole("button", { name: "Agent" }).click();
  await page.getByRole("menuitem", { name: "echo" }).click();
  await expect(page.getByRole("heading", { name: "No run matches these filters" })).toBeVisible();
  await page.getByRole("button", { name: "Clear filters" }).first().click();
  await expect(table.getByRole("link", { name: "a good one" })).toBeVisible();
  await accessible(page);
});

test("parameters of an address that make no sense are left out", async ({ page, host }) => {
  await finished(host, "echo", "still here", { conversation: "odd" });
  await page.goto(`${host.url}/runs?status=flying&time=never&page=7`);
  await expect(page.getByRole("link", { name: "still here" }).first()).toBeVisible();
  await page.goto(`${host.url}/runs/run_that_never_was`);
  await expect(page.getByRole("heading", { name: "There is no such run" })).toBeVisible();
  await page.getByRole("link", { name: "Go to the runs" }).click();
  await expect(page).toHaveURL(`${host.url}/runs`);
});

test("new runs wait behind a pill while the list is scrolled", async ({ page, host }) => {
  await Promise.all(Array.from({ length: 60 }, (_, index) => finished(host, "echo", `row ${index}`, { conversation: `pill-${index}` })));
  await page.goto(`${host.url}/runs`);
  const table = page.getByRole("table", { name: "Runs" });
  await expect(table.getByRole("link", { name: /^row / }).first()).toBeVisible();
  await table.hover();
  await page.mouse.wheel(0, 900);
  await finished(host, "echo", "the newcomer", { conversation: "pill" });
  const pill = page.getByRole("button", { name: "1 new run" });
  await expect(pill).toBeVisible();
  await expect(table.getByRole("link", { name: "the newcomer" })).toHaveCount(0);
  await pill.click();
  await expect(table.getByRole("link", { name: "the newcomer" })).toBeVisible();
  await expect(pill).toHaveCount(0);
});

test("a run with a tool, consent and steering shows each step, live and by keyboard", async ({ page, host }) => {
  await clerk(host);
  const run = await waiting(host, "desk");
  await page.goto(`${host.url}/runs/${run.run_id}`);
  const tree = page.getByRole("tree");
  await expect(tree.getByRole("treeitem", { name: /^Approval send_letter: waits, waits for a person/ })).toBeVisible();
  await expect(tree.getByRole("treeitem", { name: /^Steering queued/ })).toBeVisible();
  await allow(host, run.run_id);
  await expect(tree.getByRole("treeitem", { name: /^Approval send_letter: allowed, done/ })).toBeVisible();
  await expect(tree.getByRole("treeitem", { name: /^Steering absorbed/ })).toBeVisible();
  await expect(tree.getByRole("treeitem", { name: /^End completed/ })).toBeVisible();
  await expect(page.getByRole("button", { name: "Stop run" })).toHaveCount(0);

  await tree.focus();
  await page.keyboard.press("Home");
  const details = page.getByRole("region", { name: "Details of the step" });
  await expect(details.getByText("Ann sent this through api.")).toBeVisible();
  await details.getByText("Raw record").click();
  await expect(details.getByText(`"event_id": "${run.event_id}"`)).toBeVisible();
  await tree.focus();
  for (let step = 0; step < 3; step += 1) await page.keyboard.press("ArrowDown");
  await expect(page).toHaveURL(/at=grant/);
  await expect(details.getByText(/send_letter/).first()).toBeVisible();
  await tree.getByRole("treeitem", { name: /^Tool send_letter/ }).click();
  await expect(details.getByLabel("Arguments")).toContainText('"to": "ann"');
  await expect(details.getByLabel("Output")).toContainText("sent to ann");
  await page.keyboard.press("ArrowLeft");
  await expect(tree.getByRole("treeitem", { name: /^Approval/ })).toHaveCount(0);
  await page.keyboard.press("ArrowRight");
  await details.getByText("4 raw records").click();
  await expect(details.getByText('"type": "action.started"')).toBeVisible();
  await tree.getByRole("treeitem", { name: /^Model default/ }).first().click();
  await expect(details.getByText(/The model default answered in/)).toBeVisible();
  await page.reload();
  await expect(details.getByText(/The model default answered in/)).toBeVisible();
  await expect(page.getByRole("button", { name: "Replay" })).toHaveAttribute("aria-disabled", "true");
  await accessible(page);
});

test("an agent that calls an agent leads to the run of that agent", async ({ page, host }) => {
  await clerk(host);
  const run = await finished(host, "clerk", 'call agent_echo {"text": "hello below"}', { conversation: "child" });
  await page.goto(`${host.url}/runs/${run.run_id}`);
  await page.getByRole("treeitem", { name: /^Agent agent:echo/ }).click();
  await page.getByRole("link", { name: "Open its run" }).click();
  await expect(page.getByRole("treeitem", { name: /^Route by another run/ })).toBeVisible();
  await page.getByRole("link", { name: /^Called by/ }).click();
  await expect(page).toHaveURL(`${host.url}/runs/${run.run_id}`);
});

test("a delivery that ends after its run, and a file, appear without a reload", async ({ browser }) => {
  const chat = new SlowChat();
  const host = new Host({ BOLLARD_EGRESS_ALLOW: `127.0.0.1:${await chat.listen()}` });
  try {
    await host.start();
    await chat.connect(host, "demo");
    const run = await chat.say(host, "file");
    const context = await browser.newContext();
    const { user, password } = await host.user("ann", "admin");
    await host.signIn(context, user, password);
    const page = await context.newPage();
    await page.goto(`${host.url}/runs/${run.run_id}`);
    const tree = page.getByRole("tree");
    await expect(tree.getByRole("treeitem", { name: /^File demo.txt/ })).toBeVisible();
    await expect(tree.getByRole("treeitem", { name: /^End completed/ })).toBeVisible();
    const delivery = tree.getByRole("treeitem", { name: /^Delivery slow-chat/ });
    await expect(delivery).toHaveAccessibleName("Delivery slow-chat, goes on");
    await delivery.click();
    const details = page.getByRole("region", { name: "Details of the step" });
    await expect(details.getByText(/^The answer (waits to be|is being) sent through slow-chat\.$/)).toBeVisible();
    chat.confirm();
    await expect(delivery).toHaveAccessibleName("Delivery slow-chat, done");
    await expect(details.getByText("The answer was sent through slow-chat.")).toBeVisible();
    await context.close();
  } finally {
    await host.stop();
    host.remove();
    chat.close();
  }
});

test("a run that failed says why and what to do, also in Chinese", async ({ page, host }) => {
  const run = await finished(host, "assistant", "fail rate_limited", { conversation: "failed" });
  await page.goto(`${host.url}/runs/${run.run_id}`);
  const note = page.getByRole("alert");
  await expect(note).toContainText("The run failed: No model could answer");
  await expect(note).toContainText("The model default did not answer. Test it");
  await expect(note).toContainText("runner.error");
  await expect(note.getByRole("link", { name: "Test the model" })).toHaveAttribute("href", "/models");
  await prefer(page, "dark", "zh");
  await page.reload();
  await expect(page.getByRole("alert")).toContainText("模型 default 没有应答");
  await accessible(page);
});

test("a person stops a run from its row and from its page", async ({ page, host }) => {
  const first = await send(host, "demo", "slow", { conversation: "stop-1" });
  await until(host, first.run_id, "message.delta");
  await page.goto(`${host.url}/runs?status=running`);
  await page.getByRole("button", { name: "Actions of the run slow" }).click();
  await page.getByRole("menuitem", { name: "Stop run…" }).click();
  await page.getByRole("dialog", { name: "Stop this run?" }).getByRole("button", { name: "Stop run" }).click();
  await until(host, first.run_id, "run.ended");
  await expect(page.getByText("The run is being stopped.")).toBeVisible();

  const second = await send(host, "demo", "slow", { conversation: "stop-2" });
  await page.goto(`${host.url}/runs/${second.run_id}`);
  await expect(page.getByRole("treeitem", { name: /^Message I take.*goes on/ })).toBeVisible();
  await page.getByRole("button", { name: "Stop run" }).click();
  await page.getByRole("dialog", { name: "Stop this run?" }).getByRole("button", { name: "Stop run" }).click();
  await expect(page.getByRole("alert")).toContainText("The run was cancelled");
  await expect(page.getByRole("treeitem", { name: /^End cancelled/ })).toBeVisible();
});

test("a viewer sees runs and is not offered to stop or start them", async ({ browser, host }) => {
  await host.ask("PUT", "/api/v1/agents/open", { runner_id: "plugin:bollard/demo/default", policy: { audience: { see: { who: "everyone" } } } });
  const run = await send(host, "open", "slow", { conversation: "seen" });
  const context = await browser.newContext();
  const { user, password } = await host.user("vera", "viewer");
  await host.signIn(context, user, password);
  const page = await context.newPage();
  await page.goto(`${host.url}/runs/${run.run_id}`);
  await expect(page.getByRole("tree").getByRole("treeitem", { name: /^Run open/ })).toBeVisible();
  await expect(page.getByRole("button", { name: "Stop run" })).toHaveCount(0);
  await expect(page.getByRole("link", { name: "Open conversation" })).toHaveCount(0);
  await expect(page.getByRole("button", { name: "Replay" })).toHaveCount(0);
  const refused = await context.request.post(`${host.url}/api/v1/runs/${run.run_id}/cancel`, { headers: { origin: host.url } });
  expect(refused.status()).toBe(403);
  await page.goto(`${host.url}/runs`);
  await page.getByRole("button", { name: "Actions of the run slow" }).first().click();
  await expect(page.getByRole("menuitem", { name: "Open", exact: true })).toBeVisible();
  await expect(page.getByRole("menuitem", { name: "Stop run…" })).toHaveCount(0);
  await context.close();
});

test("the words of a message are never markup", async ({ page, host }) => {
  const evil = '<img src=x onerror="document.title=\'owned\'"> ‮gnp.exe';
  const run = await finished(host, "echo", evil, { conversation: "evil", actor: { id: "<b>eve</b>", name: "<b>eve</b>" } });
  await page.goto(`${host.url}/runs`);
  await expect(page.getByRole("link", { name: evil }).first()).toBeVisible();
  await page.goto(`${host.url}/runs/${run.run_id}?at=event`);
  await expect(page.getByRole("region", { name: "Details of the step" }).getByLabel("Text")).toContainText("<img src=x");
  await expect(page).not.toHaveTitle("owned");
});

test("on a phone, in the dark and in Chinese, the list and a step fit", async ({ page, host }) => {
  const run = await finished(host, "demo", "数数 3 ".repeat(12), { conversation: "phone" });
  await page.setViewportSize({ width: 360, height: 740 });
  await prefer(page, "dark", "zh");
  await page.goto(`${host.url}/runs`);
  await expect(page.getByRole("heading", { level: 1, name: "运行" })).toBeVisible();
  await expect(page.getByRole("table").getByRole("row").nth(1)).toBeVisible();
  await fits(page);
  await accessible(page);
  await page.goto(`${host.url}/runs/${run.run_id}`);
  await page.getByRole("treeitem", { name: /^授权/ }).click();
  const sheet = page.getByRole("dialog", { name: "步骤详情" });
  await expect(sheet.getByRole("heading", { name: "授权" })).toBeVisible();
  await accessible(page);
  await page.keyboard.press("Escape");
  await expect(sheet).toHaveCount(0);
  await fits(page);
});

test("the message of a run has room at every width", async ({ page, host }) => {
  await finished(host, "echo", "room for words", { conversation: "room" });
  await page.goto(`${host.url}/runs?text=room`);
  for (const width of [1_440, 1_280, 1_024, 640, 360]) {
    await page.setViewportSize({ width, height: 800 });
    const box = await page.getByRole("table").getByRole("cell").filter({ has: page.getByRole("link", { name: "room for words" }) }).first().boundingBox();
    expect(box?.width).toBeGreaterThan(120);
    await fits(page);
  }
});

test("a run of ten thousand records scrolls without long tasks", async ({ page, host }) => {
  test.setTimeout(180_000);
  const run = await longRun(host, 10_000);
  await page.goto(`${host.url}/runs/${run}`);
  const tree = page.getByRole("tree");
  await expect(page.getByRole("treeitem", { name: /^Tool look_up/ }).first()).toBeVisible();
  await expect(page.getByText("records read")).toBeVisible();
  await expect(page.getByText("records read")).toHaveCount(0, { timeout: 90_000 });
  await tree.focus();
  await page.keyboard.press("End");
  await expect(page.getByRole("treeitem", { name: /^End completed/ })).toBeVisible();
  await page.keyboard.press("Home");
  await page.evaluate(() => {
    const seen: number[] = [];
    Object.assign(globalThis, { longTasks: seen });
    new PerformanceObserver((list) => seen.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: "longtask" });
  });
  await tree.hover();
  for (let step = 0; step < 60; step += 1) {
    await page.mouse.wheel(0, 1_500);
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));
  }
  const long = await page.evaluate(() => (globalThis as unknown as { longTasks: number[] }).longTasks);
  console.log(`long tasks while 90 000 px scrolled: ${JSON.stringify(long)}`);
  expect(await tree.evaluate((box) => box.scrollTop)).toBeGreaterThan(50_000);
  expect(long.filter((duration) => duration > 50)).toEqual([]);
});

test("a run that has ended says so before its records are read", async ({ page, host }) => {
  const { run_id: run } = await finished(host, "echo", "done long ago", { conversation: "ended" });
  await page.route(/\/api\/v1\/runs\/run_\w+\/(records|stream)/, () => undefined); // never answered
  await page.goto(`${host.url}/runs/${run}`);
  await expect(page.getByText("The agent echo ran for")).toBeVisible();
  await expect(page.getByText("goes on")).toHaveCount(0);
});
