import type { Page } from "@playwright/test";
import { expect, type Host } from "./host";

/** Opens a page as the holder of the admin token: only they install code that runs on the host. */
export async function asOwner(page: Page, host: Host, path: string): Promise<void> {
  const { path: link } = await host.ask<{ path: string }>("POST", "/api/v1/session/tickets");
  await page.context().clearCookies();
  await page.goto("about:blank");
  await page.goto(host.url + link);
  await expect(page.getByRole("navigation").first()).toBeVisible();
  await page.goto(host.url + path);
}
