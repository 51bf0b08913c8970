import { expect, test } from "./host";

test("capabilities are grouped by source, and an agent shows what it would get and why", { tag: "@smoke" }, async ({ page, host }) => {
  const save = (id: string, permissions: object): Promise<unknown> => host.ask("PUT", `/api/v1/agents/${id}`, { runner_id: "plugin:bollard/local-agent/default", label: { en_US: "Clerk" }, policy: { access: { permissions, resources: { tools: { add: ["tool:builtin/now"] } } } } });
  await save("clerk", {});
  await save("timekeeper", { tools: ["detail", "call"] });
  await page.goto(`${host.url}/capabilities`);
  const builtin = page.getByRole("region", { name: "Built in" });
  await expect(builtin.getByRole("listitem").filter({ hasText: "http_fetch" })).toContainText("brings untrusted content · sends something out");
  await page.getByRole("searchbox", { name: "Find" }).fill("http_");
  await expect(builtin.getByRole("listitem")).toHaveCount(1);
  await page.goto(`${host.url}/capabilities?find=12345`);
  await expect(page.getByText("Nothing matches")).toBeVisible();
  await page.goto(`${host.url}/capabilities?agent=clerk`);
  await expect(page.getByRole("listitem").filter({ hasText: "tool:builtin/now" }).first()).toContainText("policy does not allow tools.call");
  await page.getByRole("combobox", { name: "Agent" }).selectOption("timekeeper");
  await expect(page.getByText(/timekeeper would get \d+ capabilit/)).toBeVisible();
  await expect(page.getByRole("listitem").filter({ hasText: "tool:builtin/now" }).first()).toContainText("Gets it");
});
