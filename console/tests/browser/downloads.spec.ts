import type { Page } from "@playwright/test";
import { readFileSync } from "node:fs";
import { expect, test } from "./host";
import { asOwner } from "./owner";

const SECOND = { "bollard-workspace": "second" };
const TEXT = { ...SECOND, "content-type": "text/plain" };

/** The name and the content of the file that a click downloads. */
async function downloaded(page: Page, click: () => Promise<void>): Promise<[string, string]> {
  const download = page.waitForEvent("download");
  await click();
  const file = await download;
  return [file.suggestedFilename(), readFileSync(await file.path(), "utf8")];
}

test("files of a second workspace are downloaded from it", async ({ page, host }) => {
  await host.ask("PUT", "/api/v1/workspaces/second", { name: "Second" });
  await host.ask("POST", "/api/v1/files?name=prices.txt", "apples", TEXT);
  await host.ask("PUT", "/api/v1/knowledge/handbook", { embedding: "none" }, SECOND);
  await host.ask("PUT", "/api/v1/knowledge/handbook/documents/rules?name=rules.txt", "be kind", TEXT);
  await asOwner(page, host, "/");
  await page.evaluate(() => localStorage.setItem("bollard.workspace", "second"));

  await page.goto(`${host.url}/resources/files`);
  await page.getByRole("button", { name: "prices.txt" }).click();
  expect(await downloaded(page, () => page.getByRole("button", { name: "Download" }).click())).toEqual(["prices.txt", '"apples"']);

  await page.goto(`${host.url}/knowledge/handbook`);
  expect(await downloaded(page, () => page.getByRole("button", { name: "rules.txt" }).click())).toEqual(["rules.txt", '"be kind"']);

  const { run_id } = await host.ask<{ run_id: string }>("POST", "/api/v1/runs", { agent: "demo", input: { text: "file" } }, SECOND);
  await page.goto(`${host.url}/runs/${run_id}`);
  await page.getByRole("treeitem", { name: /demo\.txt/ }).or(page.getByRole("row", { name: /demo\.txt/ })).first().click();
  const [name, content] = await downloaded(page, () => page.getByRole("region", { name: "Details" }).getByRole("button", { name: "Download" }).click());
  expect(name).toBe("demo.txt");
  expect(content).not.toBe("");
});
