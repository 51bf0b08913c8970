import { expect, test } from "./host";

test("a secret is set, replaced and deleted, and its value is never shown", { tag: "@smoke" }, async ({ page, host }) => {
  await page.goto(`${host.url}/resources/secrets`);
  await page.getByRole("button", { name: "Set secret" }).click();
  const sheet = page.getByRole("dialog", { name: "Set secret" });
  await sheet.getByLabel("Id").fill("GITHUB_TOKEN");
  await sheet.getByLabel("Value").fill("ghp_not_for_eyes_1234567890");
  await sheet.getByRole("button", { name: "Save" }).click();
  await expect(sheet).toBeHidden();
  await page.getByRole("button", { name: "GITHUB_TOKEN" }).click();
  await expect(page.getByRole("dialog")).toContainText("set_by");
  await expect(page.locator("body")).not.toContainText("ghp_not_for_eyes");
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Delete" }).click();
  await expect(page.getByRole("button", { name: "GITHUB_TOKEN" })).toHaveCount(0);
});

test("a key shows its token once", async ({ page, host }) => {
  await page.goto(`${host.url}/resources/keys`);
  await page.getByRole("button", { name: "Make key" }).click();
  await page.getByLabel("Name").fill("ci");
  await page.getByRole("checkbox", { name: "runs.create" }).check();
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("Copy it now: it is shown once.")).toBeVisible();
  await expect(page.getByRole("dialog")).toContainText("blk_");
  await page.getByRole("button", { name: "Done" }).click();
  await expect(page.locator("body")).not.toContainText("blk_");
});

test("a wrong field is named at the field, in both languages", async ({ page, host }) => {
  await page.goto(`${host.url}/resources/channels`);
  await page.getByRole("button", { name: "Add channel" }).click();
  await page.getByRole("textbox", { name: "Id" }).fill("room");
  await page.getByRole("textbox", { name: "Address" }).fill("not a url");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("alert")).toContainText("invalid_argument");
  await expect(page.getByRole("textbox", { name: "Address" })).toHaveAttribute("aria-invalid", "true");
  await page.evaluate(() => localStorage.setItem("bollard.language", "zh"));
  await page.reload();
  await page.getByRole("button", { name: "添加渠道" }).click();
  await page.getByRole("textbox", { name: "ID" }).fill("room");
  await page.getByRole("textbox", { name: "地址" }).fill("not a url");
  await page.getByRole("button", { name: "保存" }).click();
  await expect(page.getByRole("alert")).toContainText(/[\u4e00-\u9fff]/);
});

test("two people who edit one user do not overwrite each other", async ({ page, host }) => {
  await host.user("eve", "viewer");
  await page.goto(`${host.url}/resources/users`);
  await page.getByRole("button", { name: "eve" }).click();
  await page.getByLabel("Role").selectOption("member");
  await host.ask("PUT", "/api/v1/users/eve", { role: "operator" });
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("alert")).toBeVisible();
  await page.getByRole("button", { name: "Try again" }).click();
  await expect(page.getByLabel("Role")).toHaveValue("operator");
});

test("a user with a password is edited, and the password stays", async ({ browser, page, host }) => {
  const { user, password } = await host.user("pam", "viewer");
  await page.goto(`${host.url}/resources/users`);
  await page.getByRole("button", { name: "pam" }).click();
  await page.getByLabel("Name").fill("Pam");
  await expect(page.getByLabel("Password")).toHaveValue("");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("dialog")).toBeHidden();
  await expect(page.getByRole("row", { name: /pam/ })).toContainText("Pam");
  const context = await browser.newContext();
  await host.signIn(context, user, password);
  await context.close();
});

test("a skill is made from a folder", async ({ page, host }) => {
  await page.goto(`${host.url}/resources/skills`);
  await page.getByRole("button", { name: "Add skill" }).click();
  await page.getByRole("textbox", { name: "Id" }).fill("greeting");
  await page.getByLabel("Choose a folder").setInputFiles(new URL("../../../examples/skills/greeting", import.meta.url).pathname);
  await expect(page.getByRole("dialog").getByRole("listitem")).toContainText("SKILL.md");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("row", { name: /greeting/ })).toContainText("Greets people by the time of day");
});

test("a bot names its agent by choice, and has a name in two languages", async ({ page, host }) => {
  await page.goto(`${host.url}/resources/bots`);
  await page.getByRole("button", { name: "Add bot" }).click();
  await page.getByRole("textbox", { name: "Id" }).fill("front");
  await page.getByLabel("Agent").selectOption("echo");
  await page.getByLabel("Label (Chinese)").fill("前台");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("dialog")).toBeHidden();
  expect(await host.ask("GET", "/api/v1/bots/front")).toMatchObject({ agent_id: "echo", label: { zh_Hans: "前台" } });
});

test("a viewer sees lists and no buttons that change them", async ({ browser, host }) => {
  const { user, password } = await host.user("vic", "viewer");
  const context = await browser.newContext();
  await host.signIn(context, user, password);
  const page = await context.newPage();
  await page.goto(`${host.url}/resources/channels`);
  await expect(page.getByRole("heading", { name: "Channels" })).toBeVisible();
  await expect(page.getByRole("button", { name: "Add channel" })).toHaveCount(0);
  await expect(page.getByRole("link", { name: "Secrets" })).toHaveCount(0);
  await context.close();
});
