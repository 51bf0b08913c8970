/** Text of others in the real browser, under the policy of a real host: it stays text, loads nothing, and stays in its box. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "vite";
import { expect, test, type Host } from "./host";
import { CORPUS } from "./hostile/corpus";
import { findings, watch } from "./hostile/watch";
import type { BrowserContext, Page } from "@playwright/test";

const at = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const BUILT = at("../../test-results/hostile-page");
const SURFACES = ["markdown", "streaming", "code", "line", "json", "cell", "facts", "badge", "card", "empty", "command", "error"];
const TEXTS = Object.entries(CORPUS).flatMap(([family, texts]) => texts.map((text, index) => [`${family} ${index}`, text] as const));
const BATCH = 40;
const TYPES: Record<string, string> = { html: "text/html", js: "text/javascript", css: "text/css" };

test.beforeAll(async () => {
  await build({ configFile: at("../../vite.config.ts"), root: at("../.."), logLevel: "error", build: { outDir: BUILT, rollupOptions: { input: at("hostile/index.html") } } });
});

/** The page of components at the host's origin, with the headers of the host's own page. */
async function openBoxes(context: BrowserContext, host: Host): Promise<Page> {
  const headers = (await fetch(host.url, { headers: { accept: "text/html" } })).headers;
  const policy = headers.get("content-security-policy") ?? "";
  await context.route(/\/(hostile|assets\/)/, async (route) => {
    const { pathname } = new URL(route.request().url());
    const path = pathname === "/hostile" ? "/tests/browser/hostile/index.html" : pathname;
    await route.fulfill({ body: readFileSync(BUILT + path), headers: { "content-type": TYPES[path.split(".").at(-1) ?? ""] ?? "", "content-security-policy": policy } });
  });
  const page = await context.newPage();
  await page.goto(`${host.url}/hostile`);
  await page.waitForFunction(() => "show" in window);
  return page;
}

async function show(page: Page, surface: string, texts: readonly string[]): Promise<string[]> {
  const turn = Number(await page.locator("[data-turn]").getAttribute("data-turn")) + 1;
  await page.evaluate(([name, list]) => window.show(name, list), [surface, texts] as const);
  await page.locator(`[data-turn="${turn}"]`).waitFor({ state: "attached" });
  if (surface === "markdown" || surface === "streaming") await page.waitForFunction(() => [...document.querySelectorAll("[data-box]")].every((box) => box.querySelector("[data-streamdown], .overflow-hidden") !== null || box.textContent !== ""));
  return await page.evaluate(findings);
}

test("the corpus has at least 150 different texts", () => {
  expect(new Set(TEXTS.map(([, text]) => text)).size).toBeGreaterThanOrEqual(150);
});

for (const surface of SURFACES) {
  test(`hostile texts stay text: ${surface}`, { tag: surface === "markdown" ? "@smoke" : [] }, async ({ context, host }) => {
    const seen = await watch(context, host.url);
    const page = await openBoxes(context, host);
    const wrong: string[] = [];
    for (let start = 0; start < TEXTS.length; start += BATCH) {
      const batch = TEXTS.slice(start, start + BATCH);
      for (const finding of await show(page, surface, batch.map(([, text]) => text))) {
        wrong.push(finding.replace(/^box (\d+)/, (_, index: string) => batch[Number(index)]?.[0] ?? index));
      }
      expect(await page.locator("[data-box]").count()).toBe(batch.length);
    }
    expect(wrong).toEqual([]);
    expect(page.url()).toBe(`${host.url}/hostile`);
    expect(seen).toEqual([]);
  });
}

test("the watch sees what it looks for", async ({ context, host }) => {
  const seen = await watch(context, host.url);
  const page = await openBoxes(context, host);
  await show(page, "code", ["text"]);
  const found = await page.evaluate(() => {
    const box = document.querySelector("[data-box]");
    for (const [tag, values] of [["button", { textContent: "Approve" }], ["form", {}], ["a", { href: "javascript:pwned()" }], ["div", { id: "wide", textContent: "wide" }], ["img", { src: "https://evil.test/a.png" }]] as const) {
      box?.append(Object.assign(document.createElement(tag), values));
    }
    const wide = document.getElementById("wide");
    if (wide !== null) wide.style.width = "900px";
    window.pwned();
  }).then(() => page.evaluate(findings));
  for (const what of ["<form>", "<img>", "button", "link", "div[id=wide]", "leaves"]) expect(found.join("\n")).toContain(what);
  await expect.poll(() => seen.join("\n")).toContain("a script ran");
  await expect.poll(() => seen.join("\n")).toContain("violation of img-src: https://evil.test/a.png");
});

test("the policy of the page is the one of the reference, and Trusted Types are enforced", async ({ page, host }) => {
  const answer = await page.goto(host.url);
  const sent = (answer?.headers()["content-security-policy"] ?? "").replace(/'nonce-[\w-]{16,}'/, "'nonce-…'");
  const documented = /```text\n(default-src 'none'; script-src 'self'[^`]*)```/.exec(readFileSync(at("../../../docs/reference/http.md"), "utf8"))?.[1];
  expect(sent).toBe(documented?.trim().replaceAll(/\s+/g, " "));
  expect(sent).not.toContain("unsafe-");
  const refused = await page.evaluate(() => {
    const tries: (() => unknown)[] = [
      () => (document.createElement("div").innerHTML = "<b>x</b>"), // eslint-disable-line no-restricted-syntax -- the sink under test
      () => document.createElement("iframe").setAttribute("srcdoc", "x"),
      () => (document.createElement("script").text = "pwned()"),
      () => document.createRange().createContextualFragment("<b>x</b>"),
    ];
    return tries.map((each) => {
      try {
        return each();
      } catch (error) {
        return error instanceof TypeError;
      }
    });
  });
  expect(refused).toEqual([true, true, true, true]);
});

const LABEL = "<img src=x onerror=pwned()>\u202E **bold** [x](javascript:pwned())";

/** Everything with a name that the host lets a stranger choose. */
async function seed(host: Host): Promise<string> {
  await host.ask("PUT", "/api/v1/agents/hostile", { runner_id: "plugin:bollard/echo/default", label: { en_US: LABEL } });
  await host.ask("PUT", "/api/v1/schedules/hostile", { every_s: 86_400, agent_id: "echo", text: LABEL, paused: true });
  await host.ask("PUT", "/api/v1/bindings/hostile", { agent_id: "echo", filters: [{ field: "source", values: [LABEL] }] });
  const runs: string[] = [];
  for (const text of [LABEL, ...(CORPUS.polyglots ?? []), ...(CORPUS.imitations ?? [])]) {
    const { run_id } = await host.ask<{ run_id: string }>("POST", "/api/v1/runs", { agent: "echo", conversation: "<script>pwned()</script>", input: { text } });
    runs.push(run_id);
  }
  return runs[0] ?? "";
}

test("every page with hostile names reports no violation, runs nothing, and asks nobody else", async ({ context, host, page }) => {
  test.slow();
  const seen = await watch(context, host.url);
  const run = await seed(host);
  await page.reload();
  const links = page.getByRole("navigation").first().getByRole("link");
  await expect(links.first()).toBeVisible();
  const paths = await links.evaluateAll((all) => all.map((each) => each.getAttribute("href") ?? ""));
  const kinds = ["secrets", "files", "skills", "channels", "bots", "users", "keys", "workspaces", "conversations"].map((kind) => `/resources/${kind}`);
  for (const path of [...paths, ...kinds, "/more", "/chat?agent=echo", `/runs/${run}`, "/agents/hostile"]) {
    await page.goto(host.url + path);
    await expect(page.getByRole("main")).toBeVisible();
    await expect(page.getByRole("status", { name: "Loading" })).toHaveCount(0);
    expect(await page.locator("main img, main iframe, main form[action], main [onerror]").count(), path).toBe(0);
    expect(new URL(page.url()).origin).toBe(host.url);
    expect(seen, path).toEqual([]);
  }
});
