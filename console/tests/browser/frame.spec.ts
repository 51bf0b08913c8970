import { expect, test } from "./host";

test("every page of the rail opens with its title", async ({ page }) => {
  const links = page.getByRole("navigation").first().getByRole("link");
  await expect(links.first()).toBeVisible();
  for (const link of await links.all()) {
    const name = (await link.innerText()).replace(/\s*\d+$/, "");
    await link.click();
    await expect(page.getByRole("heading", { level: 1, name })).toBeVisible();
    await expect(page).toHaveTitle(new RegExp(`${name} · Bollard$`));
  }
});

test("an unknown address says so and leads home", async ({ page, host }) => {
  await page.goto(`${host.url}/nowhere`);
  await page.getByRole("link", { name: "Go to the overview" }).click();
  await expect(page).toHaveURL(`${host.url}/`);
});

test("an address with parameters that make no sense opens its page, without them", async ({ page, host }) => {
  for (const path of ["/mcp-servers?add=1", "/plugins?install=1", "/approvals?view=history&state=flying", "/catalogue?kind=boat", "/agents/demo?runner=1", "/chat?bot=true", "/audit?tab=none", "/capabilities?agent=1"]) {
    await page.goto(host.url + path);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    await expect(page.getByRole("alert")).toHaveCount(0);
    await expect(page).not.toHaveURL(/add=|install=|state=|kind=|runner=|bot=|tab=|agent=1/);
  }
});

test("the palette opens a model and a binding, begins a new model, switches the language, and signs out", async ({ page, host }) => {
  await host.ask("PUT", "/api/v1/models/palette-model", { style: "openai-chat", model: "any", base_url: "https://models.example.org/v1" });
  await host.ask("PUT", "/api/v1/bindings/palette-binding", { agent_id: "echo", filters: [{ field: "source", values: ["github"] }] });
  await expect(page.getByRole("heading", { level: 1, name: "Overview" })).toBeVisible();
  const choose = async (words: string, name: RegExp): Promise<void> => {
    await expect(page.getByRole("dialog")).toHaveCount(0);
    await page.keyboard.press("Control+k");
    await page.keyboard.type(words);
    await expect(page.getByRole("option").first()).toHaveText(name);
    await page.keyboard.press("Enter");
  };
  await choose("palette-m", /palette-model/);
  await expect(page.getByRole("dialog", { name: "palette-model" })).toBeVisible();
  await expect(page).toHaveURL(/models\?open=%22palette-model%22/);
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await expect(page).toHaveURL(/models$/);
  await choose("palette-b", /palette-binding/);
  await expect(page.getByRole("dialog", { name: "palette-binding" })).toBeVisible();
  await page.keyboard.press("Escape");
  await choose("add a mod", /Add a model/);
  await expect(page.getByRole("dialog", { name: "Add model" })).toBeVisible();
  await page.keyboard.press("Escape");
  await choose("create an", /Create an agent/);
  await expect(page.getByRole("dialog", { name: "New agent" })).toBeVisible();
  await page.keyboard.press("Escape");
  await choose("中文", /切换到中文/);
  await expect(page.getByRole("heading", { level: 1, name: "智能体" })).toBeVisible();
  await choose("sign out", /退出登录/);
  await expect(page.getByRole("button", { name: "登录" })).toBeVisible();
});
