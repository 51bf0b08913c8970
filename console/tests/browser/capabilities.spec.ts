import AxeBuilder from "@axe-core/playwright";
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

test("the picture says who can reach what, follows the keyboard, and leaves a phone to the list", async ({ page, host }) => {
  await host.ask("PUT", "/api/v1/agents/reader", { runner_id: "plugin:bollard/local-agent/default", policy: { access: { permissions: { tools: ["detail", "call"] }, resources: { tools: { add: ["tool:builtin/now", "tool:builtin/http_fetch"] } } } } });
  await page.goto(`${host.url}/capabilities?find=builtin`);
  const picture = page.getByRole("group", { name: "Who can reach what" });
  const source = picture.getByRole("button", { name: /^Built in: \d+ capabilities$/ });
  await expect(source).toBeVisible();
  await page.getByRole("searchbox", { name: "Find" }).fill("http_fetch");
  await expect(picture.getByRole("button", { name: /^http_fetch: medium risk; brings untrusted content; sends something out; reached by .*reader/ })).toBeVisible();
  await picture.getByRole("button", { name: "Built in: 1 capability" }).focus();
  await page.keyboard.press("ArrowRight");
  await expect(picture.getByRole("button", { name: /^http_fetch/ })).toBeFocused();
  await page.keyboard.press("ArrowRight");
  const agents = picture.getByRole("button", { name: /: gets \d+ capabilit/ });
  await expect(agents.and(page.locator(":focus"))).toHaveCount(1);
  await picture.getByRole("button", { name: /^reader: gets 1 capability/ }).focus();
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(/agent=reader/);
  await expect(page.getByText(/reader would get \d+ capabilit/)).toBeVisible();
  await expect(picture.getByRole("button", { name: /^reader/ })).toHaveAttribute("aria-pressed", "true");
  const { violations } = await new AxeBuilder({ page }).analyze();
  expect(violations.filter(({ impact }) => impact === "serious" || impact === "critical").map(({ id, nodes }) => [id, nodes[0]?.html])).toEqual([]);
  await page.setViewportSize({ width: 360, height: 740 });
  await expect(picture).toHaveCount(0);
  await expect(page.getByRole("region", { name: "Built in" }).getByRole("listitem").filter({ hasText: "http_fetch" }).first()).toBeVisible();
});
