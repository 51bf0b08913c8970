import { expect, test } from "./host";

test("a model is tested before it is kept, and saved with its key as a secret", async ({ page, host }) => {
  await page.goto(`${host.url}/models`);
  await page.getByRole("button", { name: "Add model" }).click();
  await page.getByRole("combobox", { name: "Provider" }).selectOption("openai");
  await expect(page.getByRole("textbox", { name: "Address" })).toHaveValue("https://api.openai.com/v1");
  await page.getByRole("textbox", { name: "Address" }).fill("http://127.0.0.1:9/v1");
  await page.getByRole("textbox", { name: "API key" }).fill("sk-not-a-real-key-0123456789");
  await page.getByRole("dialog").getByRole("button", { name: "Test" }).click();
  await expect(page.getByRole("dialog").getByRole("alert")).toBeVisible();
  await page.getByRole("combobox", { name: "Format" }).selectOption("demo");
  await page.getByRole("textbox", { name: "Address" }).fill("");
  await page.getByRole("textbox", { name: "Model" }).fill("demo");
  await page.getByRole("dialog").getByRole("button", { name: "Test" }).click();
  await expect(page.getByText(/It works/)).toBeVisible();
  await page.getByRole("button", { name: "Save model" }).click();
  await expect(page.getByRole("row", { name: /openai/ })).toBeVisible();
  const { items } = await host.ask<{ items: { secret_name: string }[] }>("GET", "/api/v1/secrets");
  expect(items.map((each) => each.secret_name)).toContain("OPENAI_API_KEY");
  await expect(page.locator("body")).not.toContainText("sk-not-a-real");
});
