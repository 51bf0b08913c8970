import { defineConfig } from "@playwright/test";
import { readdirSync } from "node:fs";
import { chromium } from "./tests/browser/chromium";

/** A real host with the demo model and a real browser. No retries: a red test is a defect. */
export default defineConfig({
  testDir: "tests/browser",
  // Each file is a project, so that it gets a host of its own.
  projects: readdirSync(new URL("tests/browser", import.meta.url)).filter((name) => name.endsWith(".spec.ts")).map((name) => ({ name: name.replace(".spec.ts", ""), testMatch: name })),
  workers: 1,
  retries: 0,
  forbidOnly: process.env.CI !== undefined,
  reporter: [["list"]],
  timeout: 60_000,
  expect: { timeout: 15_000 },
  use: {
    launchOptions: {
      executablePath: chromium(),
      args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
    },
    locale: "en-US",
    timezoneId: "UTC",
    viewport: { width: 1440, height: 900 },
    trace: "retain-on-failure",
  },
});
