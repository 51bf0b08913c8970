import AxeBuilder from "@axe-core/playwright";
import { readFileSync } from "node:fs";
import { expect, test } from "./host";
import { asOwner } from "./owner";

const SOURCE = readFileSync(new URL("../../../examples/single_file/echo.py", import.meta.url), "utf8");

test("a plugin is read, consented to, installed, updated, rolled back, watched and removed", async ({ page, host }) => {
  await asOwner(page, host, "/plugins");
  const choose = (source: string): Promise<void> => page.getByLabel("Plugin file").setInputFiles({ name: "parrot.py", mimeType: "text/x-python", buffer: Buffer.from(source) });
  await page.getByRole("button", { name: "Install plugin" }).click();
  await choose(SOURCE);
  await expect(page.getByText("With your consent this code runs on this host")).toBeVisible();
  await page.getByRole("button", { name: "Consent and install" }).click();
  await expect(page.getByRole("dialog")).toBeHidden();
  await page.getByRole("link", { name: /parrot/ }).click();
  await expect(page.getByText("Limits of a worker")).toBeVisible();
  expect((await new AxeBuilder({ page }).analyze()).violations.filter((each) => each.impact === "serious" || each.impact === "critical")).toEqual([]);
  await page.getByRole("button", { name: "Update" }).click();
  await choose(SOURCE.replace("you said", "you wrote"));
  await page.getByRole("dialog").getByRole("button", { name: /update/i }).click();
  await expect(page.getByRole("dialog")).toBeHidden();
  await page.getByRole("tab", { name: "Versions" }).click();
  await page.getByRole("button", { name: "Return to this version" }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Return to this version" }).click();
  await expect(page.getByRole("alertdialog")).toBeHidden();
  await page.getByRole("button", { name: "Disable" }).click();
  await expect(page.getByText("Disabled")).toBeVisible();
  await page.getByRole("tab", { name: "Logs" }).click();
  await expect(page.getByRole("log")).toBeVisible();
  await page.getByRole("button", { name: "Remove" }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Remove" }).click();
  await expect(page.getByRole("heading", { name: "Plugins" })).toBeVisible();
  await expect(page.getByRole("link", { name: /parrot/ })).toBeHidden();
});

test("a file that is no plugin is refused in words, and nothing is installed", { tag: "@smoke" }, async ({ page, host }) => {
  await asOwner(page, host, "/plugins");
  await page.getByRole("button", { name: "Install plugin" }).click();
  await page.getByLabel("Plugin file").setInputFiles({ name: "broken.zip", mimeType: "application/zip", buffer: Buffer.from("not a zip") });
  await expect(page.getByRole("dialog").getByRole("alert")).toContainText("invalid_argument");
  await page.getByLabel("Plugin file").setInputFiles({ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("hello") });
  await expect(page.getByRole("dialog").getByRole("alert")).toContainText("notes.txt is not a zip, a wheel or a Python file.");
  await expect(page.getByRole("button", { name: /Consent/ })).toBeHidden();
});

test("a viewer reads plugins and changes none", async ({ page, host }) => {
  const { user, password } = await host.user("vic", "viewer");
  await page.context().clearCookies();
  await host.signIn(page.context(), user, password);
  await page.goto(`${host.url}/plugins`);
  await page.getByRole("link", { name: /demo/ }).first().click();
  await expect(page.getByRole("tabpanel", { name: "Permissions" })).toContainText("Runner default");
  await expect(page.getByRole("button", { name: "Restart" })).toBeHidden();
  await page.goto(`${host.url}/plugins`);
  await expect(page.getByRole("table")).toBeVisible();
  await expect(page.getByRole("button", { name: "Install plugin" })).toBeHidden();
});
