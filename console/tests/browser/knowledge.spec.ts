import AxeBuilder from "@axe-core/playwright";
import { expect, test } from "./host";

test("a base is made and fed with files, a failed one is tried again and deleted, and searched", async ({ page, host }) => {
  await page.goto(`${host.url}/knowledge`);
  await page.getByRole("button", { name: "Add base" }).click();
  await page.getByRole("textbox", { name: "Id" }).fill("lake");
  await page.getByRole("combobox", { name: "Search" }).selectOption("none");
  await page.getByRole("button", { name: "Save base" }).click();
  await expect(page.getByRole("heading", { name: "lake", level: 1 })).toBeVisible();
  await page.getByLabel("Add documents").setInputFiles([
    { name: "boats.md", mimeType: "text/markdown", buffer: Buffer.from("# Boats\n\nA boat trip on the lake costs 150 yuan.") },
    { name: "picture.png", mimeType: "image/png", buffer: Buffer.from("png") },
    { name: "broken.pdf", mimeType: "application/pdf", buffer: Buffer.from("this is no pdf") },
  ]);
  await expect(page.getByRole("alert").filter({ hasText: "picture.png" })).toBeVisible();
  await expect(page.getByRole("row", { name: /boats\.md/ })).toContainText("Ready");
  const broken = page.getByRole("row", { name: /broken\.pdf/ });
  await expect(broken).toContainText("Failed");
  await broken.getByRole("button", { name: "Try again" }).click();
  await expect(page.getByText("broken.pdf is indexed again.")).toBeVisible();
  expect((await new AxeBuilder({ page }).analyze()).violations.filter((each) => each.impact === "serious" || each.impact === "critical")).toEqual([]);
  await broken.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("alertdialog").getByRole("button", { name: "Delete" }).click();
  await expect(broken).toBeHidden();
  await page.getByRole("tab", { name: "Test retrieval" }).click();
  await page.getByRole("textbox", { name: "Question" }).fill("boat trip");
  await page.getByRole("button", { name: "Find passages" }).click();
  await expect(page.getByRole("list", { name: "Test retrieval" }).getByRole("listitem").first()).toContainText("150 yuan");
  await expect(page.getByRole("list", { name: "Test retrieval" })).toContainText("boats.md");
});

test("a viewer reads a base and changes nothing", async ({ page, host }) => {
  await host.ask("PUT", "/api/v1/knowledge/quiet", { embedding: "none" });
  const { user, password } = await host.user("vera", "viewer");
  await page.context().clearCookies();
  await host.signIn(page.context(), user, password);
  await page.goto(`${host.url}/knowledge/quiet`);
  await expect(page.getByRole("heading", { name: "No document yet" })).toBeVisible();
  await expect(page.getByLabel("Add documents")).toBeHidden();
  await expect(page.getByRole("tab", { name: "Test retrieval" })).toBeHidden();
});
