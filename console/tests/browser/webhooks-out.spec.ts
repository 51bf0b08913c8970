import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, Host, test as base } from "./host";

const test = base.extend<object, { host: Host }>({
  host: [
    async ({}, use) => {
      const host = new Host({ BOLLARD_EGRESS_ALLOW: "127.0.0.1" }); // the receiver is on this machine
      try {
        await host.start();
        await use(host);
      } finally {
        await host.stop();
        host.remove();
      }
    },
    { scope: "worker", timeout: 60_000 },
  ],
});

test("an outgoing webhook is tested, and shows what became of its deliveries", async ({ page, host }) => {
  const types: string[] = [];
  let status = 200;
  const receiver = createServer((request, response) => {
    let body = "";
    request.on("data", (piece: Buffer) => (body += piece.toString()));
    request.on("end", () => {
      types.push((JSON.parse(body) as { type: string }).type);
      response.writeHead(status).end();
    });
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  try {
    await host.ask("PUT", "/api/v1/subscriptions/dashboard", { url: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`, types: ["run.completed"] });
    await page.goto(`${host.url}/resources/subscriptions`);
    await page.getByRole("button", { name: "dashboard" }).click();
    await page.getByRole("tab", { name: "Deliveries" }).click();
    await expect(page.getByText("Nothing was delivered yet.")).toBeVisible();
    await page.getByRole("button", { name: "Send a test" }).click();
    await expect(page.getByRole("status").filter({ hasText: "The receiver accepted the test." })).toBeVisible();
    expect(types).toEqual(["subscription.test"]);

    await host.ask("POST", "/api/v1/runs", { agent: "demo", input: { text: "help" } });
    const deliveries = page.getByRole("table", { name: "Deliveries" });
    await expect(deliveries.getByRole("row", { name: /run\.completed/ })).toContainText("Sent");

    status = 404;
    await page.getByRole("button", { name: "Send a test" }).click();
    await expect(page.getByRole("status").filter({ hasText: "The receiver did not accept the test." })).toContainText("404");
  } finally {
    receiver.close();
  }
});
