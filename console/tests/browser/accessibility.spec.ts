import AxeBuilder from "@axe-core/playwright";
import { expect, test } from "./host";

const PATHS = [
  "/", "/chat", "/runs", "/approvals", "/agents", "/agents/demo", "/bindings", "/models", "/catalogue", "/plugins", "/mcp-servers", "/knowledge", "/resources/channels", "/schedules",
  "/webhooks", "/audit", "/audit?tab=heads", "/audit?tab=outside", "/capabilities", "/resources/secrets", "/settings", "/more",
];

for (const [width, height, theme] of [[1440, 900, "light"], [1440, 900, "dark"], [360, 740, "light"], [360, 740, "dark"]] as const) {
  test(`no page has a serious finding at ${width} px, ${theme}`, async ({ page, host }) => {
    test.setTimeout(180_000);
    await page.setViewportSize({ width, height });
    await page.evaluate((chosen) => localStorage.setItem("bollard.theme", chosen), theme);
    const found: string[] = [];
    for (const path of PATHS) {
      await page.goto(host.url + path);
      await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
      await expect(page.getByRole("status", { name: "Loading" })).toHaveCount(0);
      const { violations } = await new AxeBuilder({ page }).analyze();
      const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
      found.push(...grave.map(({ id, nodes }) => `${path} ${id}: ${nodes.map(({ html }) => html.slice(0, 160)).slice(0, 3).join(" | ")}`));
    }
    expect(found).toEqual([]);
  });
}

test("rail, palette, dialog and menu work by keyboard alone", async ({ page, host }) => {
  await page.goto(`${host.url}/schedules`);
  await expect(page.getByRole("heading", { level: 1, name: "Schedules" })).toBeVisible();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: "Skip to the content" })).toBeFocused();
  await page.keyboard.press("Control+k");
  await page.keyboard.type("audit");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1, name: "Audit" })).toBeVisible();
  await page.getByRole("link", { name: "Schedules" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Add schedule" }).focus();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("textbox", { name: "Id" })).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await page.getByRole("button", { name: "Account" }).focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press("ArrowDown");
  await expect(page.getByRole("menuitem", { name: "Dark" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.locator("html")).toHaveClass(/dark/);
});
