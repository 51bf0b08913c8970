import AxeBuilder from "@axe-core/playwright";
import { expect, test } from "./host";
import { asOwner } from "./owner";

const PYTHON = new URL("../../../.venv/bin/python", import.meta.url).pathname;
const SERVER = new URL("../../../tests/host/mcp/programs/friendly.py", import.meta.url).pathname;

test("a server is tried, saved, and its tools wait for consent", async ({ page, host }) => {
  await asOwner(page, host, "/mcp-servers");
  await page.getByRole("button", { name: "Add server" }).click();
  await page.getByRole("textbox", { name: "Id" }).fill("friendly");
  await page.getByRole("textbox", { name: "Program" }).fill("/nowhere/at/all");
  await page.getByRole("button", { name: "Try" }).click();
  await expect(page.getByRole("heading", { name: "It does not answer." })).toBeVisible();
  await page.getByRole("textbox", { name: "Program" }).fill(PYTHON);
  await page.getByRole("textbox", { name: "Arguments" }).fill(SERVER);
  await page.getByRole("button", { name: "Try" }).click();
  await expect(page.getByRole("heading", { name: /It answers: \d+ tools/ })).toBeVisible();
  expect((await host.ask<{ items: unknown[] }>("GET", "/api/v1/mcp-servers")).items).toEqual([]);
  await page.getByRole("button", { name: "Save server" }).click();
  await expect(page.getByRole("row", { name: /friendly/ })).toContainText("Connected");
  await page.getByRole("button", { name: "friendly" }).click();
  const tool = page.getByRole("dialog").getByRole("listitem").filter({ hasText: "Asks for consent" }).first();
  const name = (await tool.getByRole("heading").textContent()) ?? "";
  await tool.getByRole("combobox", { name: "Risk" }).selectOption("high");
  expect((await new AxeBuilder({ page }).analyze()).violations.filter((each) => each.impact === "serious" || each.impact === "critical")).toEqual([]);
  await tool.getByRole("button", { name: "Consent" }).click();
  const agreed = page.getByRole("dialog").getByRole("listitem").filter({ has: page.getByRole("heading", { name, exact: true }) });
  await expect(agreed).toContainText("Offered");
  await expect(agreed).toContainText("Risk: high");
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Delete" }).click();
  await expect(page.getByRole("heading", { name: "No MCP server is connected" })).toBeVisible();
});

test("a server of the catalogue shows its README, and another one of its name does not", async ({ page, host }) => {
  const { server } = await host.ask<{ server: object }>("GET", "/api/v1/catalogue/bundled/mcp-github");
  await host.ask("PUT", "/api/v1/mcp-servers/github", { ...server, enabled: false });
  await asOwner(page, host, "/mcp-servers");
  await page.getByRole("button", { name: "github" }).click();
  await page.getByRole("tab", { name: "README" }).click();
  await expect(page.getByRole("tabpanel", { name: "README" })).toContainText("GitHub");
  await host.ask("PUT", "/api/v1/mcp-servers/github", { command: "/bin/true", enabled: false });
  await expect(page.getByRole("tab", { name: "README" })).toHaveCount(0);
  await host.ask("DELETE", "/api/v1/mcp-servers/github");
});

test("an operator sees servers and changes none", async ({ page, host }) => {
  const { user, password } = await host.user("oli", "operator");
  await page.context().clearCookies();
  await host.signIn(page.context(), user, password);
  await page.goto(`${host.url}/mcp-servers`);
  await expect(page.getByRole("heading", { name: "No MCP server is connected" })).toBeVisible();
  await expect(page.getByRole("button", { name: "Add server" })).toBeHidden();
});
