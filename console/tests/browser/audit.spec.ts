import { expect, test } from "./host";

test("the log is verified, and a record shows its place in the chain", { tag: "@smoke" }, async ({ page, host }) => {
  await host.ask("PUT", "/api/v1/secrets/AUDITED", { value: "not-for-eyes-123" });
  const { ticket } = await host.ask<{ ticket: string }>("POST", "/api/v1/session/tickets");
  const answer = await page.context().request.post(`${host.url}/api/v1/session/ticket`, { data: { ticket, cookie: true }, headers: { origin: host.url } });
  expect(answer.status()).toBe(201); // the owner of the host verifies it
  await page.goto(`${host.url}/audit`);
  await expect(page.getByText("Not verified yet")).toBeVisible();
  await page.getByRole("button", { name: "Verify now" }).click();
  await expect(page.getByText("Verified", { exact: true })).toBeVisible();
  await expect(page.getByText(/records? (is|are) unchanged/)).toBeVisible();
  await page.getByRole("button", { name: /policy\.changed|secret\./ }).first().click();
  const sheet = page.getByRole("dialog");
  await expect(sheet).toContainText(/Hash\s*[0-9a-f]{64}/);
  await expect(page).toHaveURL(/record=\d+/);
  await page.reload();
  await expect(page.getByRole("dialog")).toContainText("Place in the chain");
  await expect(page.locator("body")).not.toContainText("not-for-eyes");
});

test("filters stay in the address, and an old or hostile address still opens the page", async ({ page, host }) => {
  await page.goto(`${host.url}/audit`);
  await page.getByRole("combobox", { name: "Type" }).fill("login.succeeded");
  await page.getByRole("button", { name: "Search", exact: true }).last().click();
  await expect(page).toHaveURL(/type=login\.succeeded/);
  await expect(page.getByRole("row", { name: /login\.succeeded/ }).first()).toBeVisible();
  await expect(page.getByRole("row", { name: /policy\.changed/ })).toHaveCount(0);
  await page.getByRole("combobox", { name: "Severity" }).selectOption("critical");
  await expect(page.getByText("No record matches")).toBeVisible();
  await page.reload();
  await expect(page.getByRole("combobox", { name: "Type" })).toHaveValue("login.succeeded");
  await page.getByRole("button", { name: "Clear filters" }).click();
  await expect(page.getByRole("row", { name: /policy\.changed/ }).first()).toBeVisible();
  await page.goto(`${host.url}/audit?run=${"x".repeat(3000)}`);
  await expect(page.getByRole("alert").or(page.getByText("No record matches"))).toBeVisible();
  await page.goto(`${host.url}/audit?until=99999999999999999999&severity=loud`);
  await expect(page.getByRole("row", { name: /policy\.changed/ }).first()).toBeVisible();
});

test("heads name the key, the export is saved, and the commands verify from outside", async ({ page, host }) => {
  await page.goto(`${host.url}/audit?tab=heads`);
  const { public_key: key } = await host.ask<{ public_key: string }>("GET", "/api/v1/audit/heads");
  await expect(page.getByText(key)).toBeVisible();
  await page.getByRole("tab", { name: "Verify from outside" }).click();
  await expect(page.getByText(`bollard audit verify --data ./data --public-key ${key}`)).toBeVisible();
  const saved = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export records" }).click();
  expect((await saved).suggestedFilename()).toBe("audit.jsonl");
});

test("an operator reads records in Chinese, and finds neither export nor verification", async ({ browser, host }) => {
  const { user, password } = await host.user("otto", "operator");
  const context = await browser.newContext({ locale: "zh-CN" });
  await host.signIn(context, user, password);
  const page = await context.newPage();
  await page.goto(`${host.url}/audit`);
  await expect(page.getByRole("heading", { name: "审计" })).toBeVisible();
  await expect(page.getByRole("button", { name: "导出记录" })).toHaveCount(0);
  await expect(page.getByRole("button", { name: "立即验证" })).toHaveCount(0);
  await expect(page.getByRole("row", { name: /policy\.changed/ }).first()).toBeVisible();
  await context.close();
});

test("a viewer does not see the audit, and the host refuses it", async ({ browser, host }) => {
  const { user, password } = await host.user("vera", "viewer");
  const context = await browser.newContext();
  await host.signIn(context, user, password);
  const page = await context.newPage();
  await page.goto(`${host.url}/audit`);
  await expect(page.getByRole("link", { name: "Audit" })).toHaveCount(0);
  await expect(page.getByRole("alert").first()).toContainText("audit.read");
  await context.close();
});
