import { expect, test } from "./host";

test("a permission of an active run is revoked after a question", async ({ page, host }) => {
  const { runner_id, policy } = await host.ask<{ runner_id: string; policy: object }>("GET", "/api/v1/agents/demo");
  await host.ask("PUT", "/api/v1/agents/sloth", { runner_id, policy, config: { pause_s: 5 } });
  const { run_id } = await host.ask<{ run_id: string }>("POST", "/api/v1/runs", { agent: "sloth", input: { text: "slow" } });
  await page.goto(`${host.url}/runs/${run_id}?at=grant`);
  const details = page.getByRole("region", { name: "Details" });
  await details.getByRole("button", { name: "Revoke artifacts.write" }).click();
  const question = page.getByRole("alertdialog", { name: "Revoke artifacts.write?" });
  await question.getByRole("button", { name: "Revoke" }).click();
  await expect(question).toBeHidden();
  await expect(details.getByRole("listitem").filter({ hasText: "artifacts.write" })).toContainText("Revoked");
  expect(await host.ask("GET", `/api/v1/runs/${run_id}/grant`)).toMatchObject({ revoked: { operations: ["artifacts.write"] } });
  await host.ask("POST", `/api/v1/runs/${run_id}/cancel`);
  await expect(details.getByRole("button", { name: /Revoke/ })).toHaveCount(0);
});
