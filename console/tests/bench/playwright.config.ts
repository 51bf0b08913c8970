import { defineConfig } from "@playwright/test";
import base from "../../playwright.config";

/** The measurements of `scripts/bench console`, which starts the host and names it. */
export default defineConfig({ ...base, testDir: ".", projects: [{ name: "console", testMatch: "console.bench.ts" }], reporter: [["dot"]], timeout: 300_000, use: { ...base.use, trace: "off" } });
