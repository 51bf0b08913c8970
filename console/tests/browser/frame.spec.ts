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
