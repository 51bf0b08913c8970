import { expect, test } from "./host";

test("a page shows what another person saved, without a reload or a focus", async ({ page, context, host }) => {
  await page.goto(`${host.url}/bindings`);
  await expect(page.getByRole("heading", { name: "No event is bound yet" })).toBeVisible();
  const bots = await context.newPage();
  await bots.goto(`${host.url}/resources/bots`);
  await expect(bots.getByRole("heading", { name: "No bot yet" })).toBeVisible();
  await host.ask("PUT", "/api/v1/bindings/issues", { agent_id: "echo", filters: [{ field: "source", values: ["github"] }] });
  await host.ask("PUT", "/api/v1/bots/front", { agent_id: "echo" });
  await expect(page.getByRole("row", { name: /issues/ })).toBeVisible();
  await expect(bots.getByRole("row", { name: /front/ })).toBeVisible();
});

test("what a person types stays while the list behind it is refreshed", async ({ page, host }) => {
  await host.ask("PUT", "/api/v1/bots/desk", { agent_id: "echo", label: { en_US: "Desk" } });
  await page.goto(`${host.url}/resources/bots`);
  await page.getByRole("button", { name: "desk" }).click();
  await page.getByLabel("Label (English)").fill("Typed here");
  await host.ask("PUT", "/api/v1/bots/desk", { agent_id: "demo", label: { en_US: "Saved elsewhere" } });
  await host.ask("PUT", "/api/v1/bots/later", { agent_id: "echo" });
  await expect(page.getByRole("button", { name: "later", includeHidden: true })).toHaveCount(1);
  await expect(page.getByLabel("Label (English)")).toHaveValue("Typed here");
});
