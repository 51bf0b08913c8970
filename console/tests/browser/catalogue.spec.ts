import AxeBuilder from "@axe-core/playwright";
import { createHash, generateKeyPairSync, sign } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, Host, test as base } from "./host";
import { asOwner } from "./owner";

const README = '# Aid\n\n<img src="https://evil.example/pixel.png" onerror="alert(1)"><script>alert(2)</script>\n\n[press](javascript:alert(3)) ![x](https://evil.example/x.png)\n\nHelps people who write.';

/** A web server with a signed catalogue: one skill with a hostile README. */
class Site {
  private readonly keys = generateKeyPairSync("ed25519");
  private readonly server: Server;
  private readonly files = new Map<string, string>();

  constructor() {
    this.server = createServer((request, response) => {
      const body = this.files.get(request.url ?? "");
      response.writeHead(body === undefined ? 404 : 200).end(body ?? "");
    });
  }

  async open(): Promise<void> {
    await new Promise<void>((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    const skill = JSON.stringify({ files: [{ path: "SKILL.md", text: "---\nname: tidy\ndescription: Tidies up.\n---\nTidy the table.\n" }] });
    const file = (path: string, body: string): { path: string; sha256: string } => {
      this.files.set(`/${path}`, body);
      return { path, sha256: createHash("sha256").update(body).digest("hex") };
    };
    // Canonical JSON: the names in order, whole numbers.
    const item = { content: file("tidy.json", skill), description: { en_US: "Tidies up." }, item_id: "tidy", kind: "skill", label: { en_US: "Tidy" }, name: "tidy", readme: { en_US: file("tidy.md", README) } };
    const index = { format: 1, issued_at: 1795000000, items: [item], name: "Ours" };
    const signature = sign(null, Buffer.from(`bollard catalogue 1\n${JSON.stringify(index)}`), this.keys.privateKey).toString("hex");
    this.files.set("/index.json", JSON.stringify({ index, signature }));
  }

  close(): void {
    this.server.close();
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  /** The variables of a host that reads this catalogue. */
  get variables(): Record<string, string> {
    const key = this.keys.publicKey.export({ format: "der", type: "spki" }).subarray(-32).toString("hex");
    return { BOLLARD_CATALOGUE_URL: `http://127.0.0.1:${this.port}/index.json`, BOLLARD_CATALOGUE_KEY: key, BOLLARD_EGRESS_ALLOW: `127.0.0.1:${this.port}` };
  }
}

const test = base.extend<object, { host: Host }>({
  host: [
    async ({}, use) => {
      const site = new Site();
      await site.open();
      const host = new Host(site.variables);
      try {
        await host.start();
        await use(host);
      } finally {
        await host.stop();
        host.remove();
        site.close();
      }
    },
    { scope: "worker", timeout: 60_000 },
  ],
});

test("a plugin of the catalogue is found, read, consented to and installed", { tag: "@smoke" }, async ({ page, host }) => {
  await asOwner(page, host, "/plugins");
  await page.getByRole("link", { name: "Open catalogue" }).click();
  await expect(page).toHaveURL(/\/catalogue\?kind=plugin$/);
  await page.getByRole("searchbox", { name: "Search" }).fill("counts words");
  await expect(page.getByRole("listitem").filter({ hasText: "Plugin" })).toHaveCount(1);
  expect((await new AxeBuilder({ page }).analyze()).violations.filter((each) => each.impact === "serious" || each.impact === "critical")).toEqual([]);
  await page.getByRole("button", { name: "Writing aid" }).click();
  await expect(page.getByRole("dialog")).toContainText("local/tool_agent");
  await page.getByRole("button", { name: "Review and install" }).click();
  await expect(page.getByText("With your consent this code runs on this host")).toBeVisible();
  await page.getByRole("button", { name: "Consent and install" }).click();
  await expect(page.getByRole("dialog")).toBeHidden();
  await expect(page.getByRole("link", { name: "local/tool_agent" })).toBeVisible();
  await page.goto(`${host.url}/catalogue?search=counts+words`);
  await expect(page.getByRole("listitem").filter({ hasText: "Writing aid" })).toContainText("Installed");
});

test("a form of an MCP server is filled in, and nothing is saved before a person saves it", async ({ page, host }) => {
  await asOwner(page, host, "/catalogue?kind=mcp_server&item=bundled%2Fmcp-github");
  await page.getByRole("dialog").getByRole("button", { name: "Fill in and try" }).click();
  await expect(page.getByRole("textbox", { name: "Id" })).toHaveValue("github");
  await expect(page.getByLabel("Headers")).toHaveValue("Authorization=Bearer secret:GITHUB_TOKEN");
  await expect(page.getByRole("dialog")).toContainText("It needs these secrets: GITHUB_TOKEN.");
  await page.getByRole("button", { name: "Try" }).click();
  await expect(page.getByRole("dialog")).toContainText("There is no secret GITHUB_TOKEN");
  await page.keyboard.press("Escape");
  await expect(page).toHaveURL(/\/mcp-servers$/);
  await expect(page.getByText("No MCP server is connected")).toBeVisible();
});

test("a README of a stranger is text, and its skill is saved after it was read", async ({ page, host }) => {
  const requests: string[] = [];
  page.on("request", (request) => requests.push(request.url()));
  page.on("dialog", (dialog) => { throw new Error(`a script ran: ${dialog.message()}`); });
  await asOwner(page, host, "/catalogue?kind=skill");
  await page.getByRole("button", { name: "Tidy" }).click();
  const sheet = page.getByRole("dialog");
  await expect(sheet.getByText("Helps people who write.")).toBeVisible();
  await expect(sheet).toContainText("Tidy the table.");
  await expect(sheet.locator("script, img, iframe, a[href^='javascript:']")).toHaveCount(0);
  expect(requests.filter((url) => !url.startsWith(host.url))).toEqual([]);
  await sheet.getByRole("button", { name: "Save skill" }).click();
  await expect(page.getByText("Saved tidy.")).toBeVisible();
  await expect(page.getByRole("listitem").filter({ hasText: "Tidies up." })).toContainText("Installed");
  expect((await host.ask<{ skill_id: string }>("GET", "/api/v1/skills/tidy")).skill_id).toBe("tidy");
});

test("a viewer reads the catalogue, in Chinese too, and installs nothing", async ({ page, host }) => {
  const { user, password } = await host.user("vic", "viewer");
  await host.signIn(page.context(), user, password);
  await page.evaluate(() => localStorage.setItem("bollard.language", "zh"));
  await page.goto(`${host.url}/catalogue?item=bundled%2Fsupport-desk`);
  await expect(page).toHaveTitle("目录 · Bollard");
  await expect(page.getByRole("dialog", { name: "客服台" })).toContainText("退款须经审批");
  await expect(page.getByRole("button", { name: "查看并安装" })).toBeHidden();
  await page.goto(`${host.url}/plugins?install=bundled%2Fsupport-desk`);
  await expect(page.getByRole("table")).toBeVisible();
  await expect(page.getByRole("dialog")).toBeHidden();
  const refused = await page.request.post(`${host.url}/api/v1/plugins`, { data: { catalogue: "bundled/support-desk" }, headers: { origin: host.url } });
  expect(refused.status()).toBe(403);
});
