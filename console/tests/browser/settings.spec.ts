import { readFileSync } from "node:fs";
import { expect, test } from "./host";
import { asOwner } from "./owner";
import { finished } from "./runs-seed";

test("what the host knows of a person is exported, and erased after a question", async ({ page, host }) => {
  await finished(host, "echo", "my parcel is late", { conversation: "parcel", actor: { id: "nora", name: "Nora" } });
  await host.user("nora", "member");
  await page.goto(`${host.url}/settings`);
  const person = page.getByRole("textbox", { name: "Person" });
  await expect(page.getByRole("button", { name: "Erase person" })).toBeDisabled();
  await person.fill("nobody");
  await page.getByRole("button", { name: "Erase person" }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Erase person" }).click();
  await expect(page.getByRole("alertdialog").getByRole("alert")).toBeVisible();
  await page.getByRole("alertdialog").getByRole("button", { name: "Cancel" }).click();
  await person.fill("nora");
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export records" }).click();
  const saved = await download;
  expect(saved.suggestedFilename()).toBe("nora.jsonl");
  expect(readFileSync(await saved.path(), "utf8")).toContain("my parcel is late");
  await page.getByRole("button", { name: "Erase person" }).click();
  const question = page.getByRole("alertdialog", { name: "Erase nora?" });
  await expect(question).toContainText("It cannot be undone.");
  await question.getByRole("button", { name: "Erase person" }).click();
  await expect(page.getByText(/Erased user:nora: \d+ records lost their data/)).toBeVisible();
  await expect(person).toHaveValue("");
  expect(JSON.stringify(await host.ask("GET", "/api/v1/users"))).not.toContain("nora");
});

test("the host stops accepting work after a question, and accepts it again", async ({ page, host }) => {
  await asOwner(page, host, "/settings");
  await page.getByRole("button", { name: "Stop accepting work" }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Stop accepting work" }).click();
  await expect(page.getByText("Does not accept work")).toBeVisible();
  expect((await fetch(`${host.url}/readyz`)).status).toBe(503);
  await page.getByRole("button", { name: "Accept work again" }).click();
  await expect(page.getByText("Accepts work", { exact: true })).toBeVisible();
  expect((await fetch(`${host.url}/readyz`)).status).toBe(200);
});

test("a viewer is shown the own account, and neither people nor the host", async ({ browser, host }) => {
  const context = await browser.newContext();
  const { user, password } = await host.user("vera", "viewer");
  await host.signIn(context, user, password);
  const page = await context.newPage();
  await page.goto(`${host.url}/settings`);
  await expect(page.getByRole("heading", { name: "Change password" })).toBeVisible();
  await expect(page.getByRole("heading", { name: "Data of a person" })).toHaveCount(0);
  await expect(page.getByRole("button", { name: "Stop accepting work" })).toHaveCount(0);
  await context.close();
});

test("a person sees the own sessions and ends another one", async ({ browser, page, host }) => {
  const { user, password } = await host.user("ann", "admin");
  const other = await browser.newContext();
  expect((await other.request.post(`${host.url}/api/v1/session`, { data: { user, password, cookie: true }, headers: { origin: host.url } })).status()).toBe(201);
  await page.goto(`${host.url}/settings`);
  const sessions = page.getByRole("region", { name: "Your sessions" });
  await expect(sessions.getByText("This session", { exact: true })).toHaveCount(1);
  const before = await sessions.getByRole("button", { name: "End this session" }).count();
  await sessions.getByRole("button", { name: "End this session" }).last().click();
  await page.getByRole("alertdialog").getByRole("button", { name: "End this session" }).click();
  await expect(page.getByText("The session has ended.")).toBeVisible();
  await expect(sessions.getByRole("button", { name: "End this session" })).toHaveCount(before - 1);
  expect((await other.request.get(`${host.url}/api/v1/session`)).status()).toBe(401);
  await expect(sessions.getByText("This session", { exact: true })).toHaveCount(1);
  await other.close();
});
