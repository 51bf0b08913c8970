import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, Host, test as base } from "./host";

const GUIDE = readFileSync(new URL("../../../docs/guides/streams-in-a-page.md", import.meta.url), "utf8");
const CODE = /```js\n\/\/ follow\.mjs\n([\s\S]*?)```/.exec(GUIDE)?.[1] ?? "";

interface Own {
  host: Host;
  site: Server;
}

/** A page of another origin, whose server gets the tickets, as the guide describes it. */
const test = base.extend<object, Own>({
  site: [
    async ({}, use) => {
      const site = createServer();
      await new Promise<void>((resolve) => site.listen(0, "127.0.0.1", resolve));
      await use(site);
      site.close();
    },
    { scope: "worker" },
  ],
  host: [
    async ({ site }, use) => {
      const origin = `http://127.0.0.1:${(site.address() as AddressInfo).port}`;
      const host = new Host({ BOLLARD_ORIGINS: origin });
      site.on("request", (request, response) => {
        const url = new URL(request.url ?? "/", origin);
        if (url.pathname === "/ticket") {
          void host.ask<{ ticket: string }>("POST", "/api/v1/tickets", { path: url.searchParams.get("path"), renewable: true }).then(({ ticket }) => response.end(ticket));
        } else if (url.pathname === "/follow.mjs") response.writeHead(200, { "content-type": "text/javascript" }).end(CODE);
        else response.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>Dashboard</title>");
      });
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

test("the code of the guide shows a run in a page of another origin, whole and once", async ({ context, host, site }) => {
  expect(CODE).toContain("export function follow(");
  const { run_id } = await host.ask<{ run_id: string }>("POST", "/api/v1/runs", { agent: "demo", input: { text: "count 5" } });
  const page = await context.newPage();
  const streams: string[] = [];
  page.on("request", (request) => {
    if (request.url().includes("/stream")) streams.push(request.url());
  });
  await page.goto(`http://127.0.0.1:${(site.address() as AddressInfo).port}/`);
  const seen = await page.evaluate(
    async ([url, path]) => {
      const { follow } = (await import(/* @vite-ignore */ `${location.origin}/follow.mjs`)) as { follow: (host: string, path: string, ticket: (path: string) => Promise<string>, show: (type: string, record: { delta?: string; text?: string; message?: { content: string } }) => void) => void };
      const getTicket = async (of: string): Promise<string> => (await fetch(`/ticket?path=${encodeURIComponent(of)}`)).text();
      return await new Promise<{ types: string[]; records: unknown[] }>((resolve) => {
        const types: string[] = [];
        const records: unknown[] = [];
        follow(url, path, getTicket, (type, record) => {
          types.push(type);
          records.push(record);
          if (type === "run.ended") resolve({ types, records });
        });
      });
    },
    [host.url, `/api/v1/runs/${run_id}/stream`] as const,
  );
  expect(seen.types.filter((type) => type === "run.ended")).toHaveLength(1);
  const whole = JSON.stringify(seen.records.find((_, index) => seen.types[index] === "message.completed"));
  expect(whole).toContain("1 2 3 4 5");
  expect(seen.types.indexOf("message.delta")).toBeGreaterThanOrEqual(0);
  expect(streams).toHaveLength(1); // closed after the end, so that EventSource does not connect again
  expect(streams[0]).not.toContain("bollard_");
});
