import { expect, test, type Host } from "./host";

/** Looks at one page: `LOOK=/runs npx playwright test look`. Writes a picture for each size, theme and language. */
test.skip(process.env.LOOK === undefined, "only by hand");
test("look", async ({ page, host }) => {
  const path = process.env.LOOK ?? "/";
  await seed(host);
  page.on("console", (message) => console.log(message.type(), message.text()));
  page.on("pageerror", (error) => console.log("error", error.message));
  for (const [width, height] of [[1440, 900], [1024, 768], [640, 900], [360, 740]] as const) {
    for (const [theme, language] of [["light", "en"], ["dark", "zh"]] as const) {
      await page.setViewportSize({ width, height });
      await page.evaluate(([t, l]) => {
        localStorage.setItem("bollard.theme", t);
        localStorage.setItem("bollard.language", l);
      }, [theme, language] as const);
      await page.goto(host.url + path);
      await expect(page.getByRole("main")).toBeVisible();
      await page.waitForTimeout(500); // answers and fonts
      await page.screenshot({ path: `look/${path.replaceAll(/\W+/g, "-")}-${width}-${theme}-${language}.png` });
    }
  }
});

/** A host with a little of everything. */
async function seed(host: Host): Promise<void> {
  await host.ask("PUT", "/api/v1/channels/support-room", { url: "https://chat.example.org/hook" });
  await host.ask("PUT", "/api/v1/schedules/morning-news", { cron: "0 9 * * 1-5", zone: "Asia/Shanghai", agent_id: "demo", text: "count 3" });
  await host.ask("PUT", "/api/v1/schedules/weekly-report-of-everything-that-happened-in-the-support-room", { every_s: 86_400, agent_id: "echo", paused: true });
  await host.ask("PUT", "/api/v1/hooks/github", { verifier: { kind: "github" }, agent: "echo", event: { text: "{body.issue.title}" } });
  await host.ask("PUT", "/api/v1/secrets/GITHUB_TOKEN", { value: "ghp_1234567890abcdef" });
  await host.ask("PUT", "/api/v1/bindings/issues", { agent_id: "echo", filters: [{ field: "source", values: ["github"] }] });
  for (const text of ["count 3", "你好，杭州西湖划船多少钱？", "slow"]) await host.ask("POST", "/api/v1/runs", { agent: "demo", conversation: "look", input: { text } });
}
