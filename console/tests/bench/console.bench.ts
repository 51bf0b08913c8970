/** Measures the page in Chromium against a host that `bench/console_page.py` has filled, and writes the figures as JSON. */
import { test, type Browser, type BrowserContext, type Page } from "@playwright/test";
import { writeFileSync } from "node:fs";
import { CATEGORIES, percentile, workOf, type Work } from "./trace";

interface Order {
  url: string;
  token: string;
  /** A run with ten thousand records. */
  run: string;
  tokens: number;
  passes: number;
  pages: number;
  out: string;
}
const order = JSON.parse(process.env.BOLLARD_BENCH ?? "{}") as Order;
const SCROLL_PX = 60_000;
const SCROLL_PX_PER_S = 12_000;
const CONVERSATION = `bench-${Date.now()}`;
const CHAT = `/chat?conversation=${CONVERSATION}&agent=benchtalk`;

test("console", async ({ browser }) => {
  const stream = await measureStream(browser);
  const figures = { stream, ...(await measureLoads(browser)), scroll: await measureScroll(browser), pagesMs: await measurePages(browser) };
  writeFileSync(order.out, JSON.stringify(figures));
});

async function ask<T>(method: string, path: string, body: unknown): Promise<T> {
  const answer = await fetch(order.url + path, { method, headers: { authorization: `Bearer ${order.token}`, "content-type": "application/json" }, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as T;
}

/** A browser without a cache that is signed in. */
async function signedIn(browser: Browser): Promise<BrowserContext> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, locale: "en-US" });
  const { ticket } = await ask<{ ticket: string }>("POST", "/api/v1/session/tickets", {});
  const answer = await context.request.post(`${order.url}/api/v1/session/ticket`, { data: { ticket, cookie: true }, headers: { origin: order.url } });
  if (!answer.ok()) throw new Error(await answer.text());
  return context;
}

/** The files of first visits, on the wire, and the time to interactive. The conversation has an answer, and so loads the renderer of Markdown. */
async function measureLoads(browser: Browser): Promise<{ loadKb: Record<string, number>; interactiveMs: number }> {
  const loadKb: Record<string, number> = {};
  const times: number[] = [];
  for (const [name, path] of Object.entries({ overview: "/", conversation: CHAT })) {
    for (let pass = 0; pass < order.passes; pass += 1) {
      const context = await signedIn(browser);
      const page = await context.newPage();
      const bytes = await countBytes(page);
      await page.goto(order.url + path, { waitUntil: "commit" });
      const interactive = await page.evaluate(interactiveAt);
      if (name === "overview") times.push(interactive);
      await page.waitForLoadState("load");
      await page.waitForTimeout(1_000); // chunks that the page asks for when it is idle
      loadKb[name] = bytes() / 1_000;
      await context.close();
    }
  }
  return { loadKb, interactiveMs: percentile(times, 0.5) };
}

async function countBytes(page: Page): Promise<() => number> {
  const session = await page.context().newCDPSession(page);
  await session.send("Network.enable");
  const files = new Set<string>();
  let bytes = 0;
  session.on("Network.responseReceived", ({ requestId, response }) => {
    if (!new URL(response.url).pathname.startsWith("/api/")) files.add(requestId); // answers grow with the data of the host
  });
  session.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
    if (files.has(requestId)) bytes += encodedDataLength;
  });
  return () => bytes;
}

/** Milliseconds from the start of the navigation until the heading stands, no part is loading, and the thread is idle. */
function interactiveAt(): Promise<number> {
  return new Promise((resolve) => {
    const look = (): void => {
      if (document.querySelector("main h1") === null || document.querySelector("main [role=status][aria-label]") !== null) requestAnimationFrame(look);
      else requestIdleCallback(() => resolve(performance.now()));
    };
    look();
  });
}

async function traced(browser: Browser, page: Page, action: () => Promise<void>): Promise<Work> {
  await browser.startTracing(page, { categories: CATEGORIES });
  await action();
  return workOf(await browser.stopTracing());
}

/** An open conversation while an answer streams into it. */
async function measureStream(browser: Browser): Promise<Work> {
  const context = await signedIn(browser);
  const page = await context.newPage();
  await page.goto(`${order.url}${CHAT}`);
  await page.getByRole("textbox", { name: "Message" }).waitFor();
  const say = (tokens: number): Promise<unknown> => ask("POST", "/api/v1/runs", { agent: "benchtalk", conversation: CONVERSATION, input: { text: `${tokens} tokens` }, data: { tokens } });
  await say(20); // the first answer loads the renderer
  await page.getByText("The last word.").first().waitFor();
  const work = await traced(browser, page, async () => {
    await say(order.tokens);
    await page.getByText("The last word.").nth(1).waitFor({ timeout: 120_000 });
  });
  await context.close();
  return work;
}

/** The timeline of a long run, scrolled by the wheel from its beginning to its end and back. */
async function measureScroll(browser: Browser): Promise<Work> {
  const context = await signedIn(browser);
  const page = await context.newPage();
  await page.goto(`${order.url}/runs/${order.run}`);
  const tree = page.getByRole("tree");
  await page.getByText("records read").waitFor({ state: "visible", timeout: 60_000 }).catch(() => undefined);
  await page.getByText("records read").waitFor({ state: "hidden", timeout: 120_000 });
  await tree.hover();
  const work = await traced(browser, page, async () => {
    const session = await context.newCDPSession(page);
    for (const yDistance of [-SCROLL_PX, SCROLL_PX]) await session.send("Input.synthesizeScrollGesture", { x: 500, y: 500, yDistance, speed: SCROLL_PX_PER_S, gestureSourceType: "mouse" });
  });
  await context.close();
  return work;
}

/** From the scroll to the end of the list until the next page of rows is drawn: the 95th percentile. */
async function measurePages(browser: Browser): Promise<number> {
  const context = await signedIn(browser);
  const page = await context.newPage();
  await page.goto(`${order.url}/runs`);
  await page.getByRole("table", { name: "Runs" }).getByRole("row").nth(5).waitFor();
  await page.waitForTimeout(500); // the second page is read ahead
  const times: number[] = [];
  for (let number = 0; number < order.pages; number += 1) times.push(await page.evaluate(nextPage));
  await context.close();
  return percentile(times, 0.95);
}

function nextPage(): Promise<number> {
  const list = document.querySelector("[role=table]");
  const box = list?.parentElement;
  if (list == null || box == null) throw new Error("no list");
  const height = box.scrollHeight;
  const started = performance.now();
  box.scrollTop = height;
  return new Promise((resolve) => {
    const look = (): void => {
      if (box.scrollHeight > height + 100) requestAnimationFrame(() => resolve(performance.now() - started));
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
}
