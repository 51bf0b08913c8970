import { expect, test } from "./host";

const RUNS = 2_500;
const AT_ONCE = 40;

test("a conversation of 5 000 messages opens at its end, draws what is visible, and scrolls to its beginning", async ({ page, host }) => {
  test.setTimeout(600_000);
  for (let first = 1; first <= RUNS; first += AT_ONCE) {
    const numbers = Array.from({ length: Math.min(AT_ONCE, RUNS - first + 1) }, (_, index) => first + index);
    const runs: string[] = [];
    for (const number of numbers) runs.push((await host.ask<{ run_id: string }>("POST", "/api/v1/runs", { agent: "echo", conversation: "long", input: { text: `message ${number}` } })).run_id);
    await expect.poll(async () => (await host.ask<{ status: string }>("GET", `/api/v1/runs/${runs.at(-1) ?? ""}`)).status, { intervals: [20, 50, 100], timeout: 60_000 }).toBe("completed");
  }
  await page.goto(`${host.url}/chat?conversation=long&agent=echo`);
  const messages = page.getByRole("log");
  await expect(messages.getByText(`message ${RUNS}`, { exact: true })).toBeInViewport();
  const turns = messages.locator("[data-index]");
  expect(await turns.count()).toBeLessThan(60);
  const oldest = messages.getByText("message 1", { exact: true });
  await expect
    .poll(
      async () => {
        await turns.first().evaluate((row) => row.closest(".overflow-y-auto")?.scrollTo({ top: 0 }));
        return oldest.isVisible();
      },
      { intervals: [30], timeout: 240_000 },
    )
    .toBe(true);
  expect(await turns.count()).toBeLessThan(60);
});
