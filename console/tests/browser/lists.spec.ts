import { expect, test, type Host } from "./host";

const COUNT = 105;
const last = (noun: string): string => `${noun}-${COUNT}`;

/** Saves more resources of a kind than one page of the API holds. */
async function fill(host: Host, path: string, noun: string, body: object): Promise<void> {
  for (let number = 1; number <= COUNT; number += 1) await host.ask("PUT", `/api/v1/${path}/${noun}-${String(number).padStart(3, "0")}`, body);
}

test("the agents and models after the hundredth are listed, found and chosen", async ({ page, host }) => {
  const { runner_id } = await host.ask<{ runner_id: string }>("GET", "/api/v1/agents/assistant");
  await fill(host, "agents", "zagent", { runner_id, label: { en_US: "Many" } });
  await fill(host, "models", "zmodel", { style: "demo" });
  await page.goto(`${host.url}/agents`);
  await expect(page.getByRole("link", { name: last("zagent") })).toBeVisible();
  await page.goto(`${host.url}/models`);
  await expect(page.getByRole("button", { name: last("zmodel") })).toBeVisible();

  await page.getByRole("button", { name: /Search|Go to/ }).click();
  await page.getByRole("combobox").fill(last("zagent"));
  await expect(page.getByRole("option", { name: `Chat with ${last("zagent")}` })).toBeVisible();
  await page.keyboard.press("Escape");

  await page.goto(`${host.url}/bindings`);
  await page.getByRole("button", { name: "Add binding" }).click();
  await page.getByRole("textbox", { name: "Id" }).fill("to-the-last");
  await page.getByLabel("Agent").selectOption(last("zagent"));
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("row", { name: /to-the-last/ })).toContainText(last("zagent"));

  await page.goto(`${host.url}/agents/${last("zagent")}`);
  const access = page.getByRole("region", { name: "Access" });
  await access.getByRole("checkbox", { name: last("zmodel"), exact: true }).check();
  await page.getByRole("button", { name: "Save agent" }).click();
  await expect(page.getByText(`Saved ${last("zagent")}.`)).toBeVisible();
  const { policy } = await host.ask<{ policy: { access: { resources: unknown } } }>("GET", `/api/v1/agents/${last("zagent")}`);
  expect(policy.access.resources).toMatchObject({ models: { add: [last("zmodel")] } });

  await page.goto(`${host.url}/chat?agent=${last("zagent")}`);
  await expect(page.getByRole("combobox", { name: "Agent" })).toHaveValue(last("zagent"));
});

test("the schedules and knowledge bases after the hundredth are listed", async ({ page, host }) => {
  await fill(host, "schedules", "zschedule", { every_s: 86_400, agent_id: "echo", paused: true });
  await fill(host, "knowledge", "zbase", {});
  await page.goto(`${host.url}/schedules`);
  await expect(page.getByRole("button", { name: last("zschedule") })).toBeVisible();
  await page.goto(`${host.url}/knowledge`);
  await expect(page.getByRole("link", { name: last("zbase") })).toBeVisible();
});
