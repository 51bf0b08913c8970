/** Makes the pictures of README and docs: `npm run pictures`. Each is a page of a real host, light, in the language of its reader. */
import type { Page } from "@playwright/test";
import { expect, test as base, type Host } from "./host";
import { allow, letters, until } from "./runs-seed";

const OUT = new URL("../../../docs/images/", import.meta.url).pathname;
const PLUGIN = new URL("pictures/harbour.py", import.meta.url).pathname;
const SAID = { en: "Three adults and a child want the boat on Friday. What does it cost? Please book it.", zh: "三个大人和一个孩子想坐周五的船，多少钱？请帮我预订。" };
const DESK = {
  runner_id: "plugin:bollard/local-agent/default",
  label: { en_US: "Front desk", zh_Hans: "前台" },
  config: { prompt: "You answer guests at the front desk. Look into the house rules before you answer, and name your source." },
  policy: {
    access: {
      permissions: { models: ["invoke", "stream"], tools: ["detail", "call"], history: ["page"], knowledge_bases: ["retrieve"] },
      resources: { models: { add: ["demo"] }, knowledge_bases: { add: ["house"] }, tools: { add: ["tool:builtin/now", "mcp:letters/send_letter"] } },
    },
  },
};
const AGENT = {
  runner_id: "plugin:local/harbour/default",
  label: { en_US: "Harbour desk", zh_Hans: "码头前台" },
  policy: { access: { permissions: { tools: ["detail", "call"] }, resources: { tools: { add: ["tool:builtin/calculate", "mcp:letters/send_letter"] } } } },
};

base.skip(process.env.PICTURES === undefined, "only by hand");
const test = base.extend<object, { filled: Host }>({
  filled: [
    async ({ host }, use) => {
      await host.stop();
      await host.start(["--plugins", PLUGIN]);
      await expect.poll(async () => JSON.stringify(await host.ask("GET", "/api/v1/runners"))).toContain("harbour");
      await letters(host);
      await host.ask("PUT", "/api/v1/agents/harbour-desk", AGENT);
      await host.ask("PUT", "/api/v1/knowledge/house", { embedding: "none", name: "House rules" });
      await host.ask("PUT", "/api/v1/agents/front-desk", DESK);
      await use(host);
    },
    { scope: "worker" },
  ],
});
test.use({ viewport: { width: 1280, height: 840 }, deviceScaleFactor: 1.5 });

async function open(page: Page, url: string, language: "en" | "zh"): Promise<void> {
  await page.evaluate((chosen) => {
    localStorage.setItem("bollard.language", chosen);
    localStorage.setItem("bollard.theme", "light");
  }, language);
  await page.goto(url);
}

async function take(page: Page, name: string): Promise<void> {
  await expect(page.getByRole("status", { name: /Loading|加载中/ })).toHaveCount(0);
  await page.mouse.move(0, 0);
  await page.screenshot({ path: `${OUT}${name}.png`, animations: "disabled", caret: "hide" });
}

async function ask(host: Host, language: "en" | "zh", conversation: string): Promise<string> {
  const { run_id: run } = await host.ask<{ run_id: string }>("POST", "/api/v1/runs", { agent: "harbour-desk", conversation, input: { text: SAID[language] }, actor: { id: "li", name: "Li" } });
  await until(host, run, "approval.requested");
  return run;
}

for (const language of ["en", "zh"] as const) {
  test(`a conversation with a tool call and an approval, ${language}`, async ({ page, filled: host }) => {
    await ask(host, language, `boat-${language}`);
    await open(page, `${host.url}/chat?conversation=boat-${language}&agent=harbour-desk`, language);
    await expect(page.getByRole("region", { name: "send_letter" }).getByRole("button").first()).toBeEnabled();
    await expect(page.getByRole("log").getByText("calculate", { exact: true })).toBeInViewport();
    await take(page, language === "en" ? "console-chat" : "console-chat.zh-CN");
  });
}

test("the timeline of a run, and an agent", async ({ page, filled: host }) => {
  const run = await ask(host, "en", "boat");
  await allow(host, run); // at once: the wait for a person would be the longest bar
  await open(page, `${host.url}/runs/${run}`, "en");
  await page.getByRole("treeitem", { name: /^Tool send_letter/ }).click();
  await expect(page.getByLabel("Output")).toContainText("sent to ann");
  await take(page, "console-timeline");
  await open(page, `${host.url}/agents/front-desk`, "en");
  await expect(page.getByText("after approval.")).toBeVisible();
  await take(page, "console-agent");
});
