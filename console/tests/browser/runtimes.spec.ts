import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "./host";
import { asOwner } from "./owner";

const PROGRAM = new URL("../../../.venv/bin/bollard", import.meta.url).pathname;

test("a connected runtime gets consent to its code, and is disabled and enabled", async ({ page, host }) => {
  const folder = mkdtempSync(join(tmpdir(), "bollard-runtime-"));
  const env = { ...process.env, XDG_CONFIG_HOME: join(folder, "config") };
  expect(spawnSync(PROGRAM, ["plugin", "new", "weather", "--author", "acme"], { cwd: folder, env }).status).toBe(0);
  const { code } = await host.ask<{ code: string }>("POST", "/api/v1/runtimes", { name: "gpu-box" });
  const runtime = spawn(PROGRAM, ["runtime", "weather", "--connect", host.url, "--enroll", code], { cwd: folder, env, stdio: "ignore" });
  try {
    await asOwner(page, host, "/resources/runtimes");
    await expect(page.getByRole("row", { name: /gpu-box/ })).toContainText("Gets no runs");
    await page.getByRole("button", { name: "gpu-box" }).click();
    const sheet = page.getByRole("dialog", { name: "gpu-box" });
    await expect(sheet).toContainText("It gets no runs before a person consents to the code of acme/weather.");
    const asks = sheet.getByRole("region", { name: /acme\/weather .* asks for/ });
    await expect(asks).toContainText("Its code runs on another machine");
    await expect(asks).toContainText("Offers the tool count_words.");
    await sheet.getByRole("button", { name: "Consent to this code" }).click();
    await expect(page.getByText("gpu-box gets runs now.")).toBeVisible();
    await expect(sheet).toContainText("Ready");
    await expect(sheet.getByRole("button", { name: "Consent to this code" })).toBeHidden();
    const { consented } = await host.ask<{ consented: { plugin_id: string } | null }>("GET", "/api/v1/runtimes/gpu-box");
    expect(consented?.plugin_id).toBe("acme/weather");

    await sheet.getByRole("button", { name: "Disable" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Disable" }).click();
    await expect(sheet).toContainText("Disabled");
    expect(await host.ask("GET", "/api/v1/runtimes/gpu-box")).toMatchObject({ enabled: false, presence: null });
    await sheet.getByRole("button", { name: "Enable" }).click();
    await expect(sheet.getByRole("button", { name: "Disable" })).toBeVisible();
    expect(await host.ask("GET", "/api/v1/runtimes/gpu-box")).toMatchObject({ enabled: true });
  } finally {
    const ended = new Promise((resolve) => runtime.once("exit", resolve));
    if (runtime.exitCode === null && runtime.kill("SIGTERM")) await ended;
    rmSync(folder, { recursive: true, force: true });
  }
});
