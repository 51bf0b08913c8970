/** The first visit: a link of the terminal signs a browser in, once. */
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "./host";

const BIN = new URL("../../../.venv/bin", import.meta.url).pathname;
const LINK = /http:\/\/\S+\/#ticket=[\w-]+/;

/** A command of the host on a pseudo-terminal, and the first link that it prints. */
async function linkOf(folder: string, ...command: string[]): Promise<{ link: string; child: ChildProcess }> {
  const child = spawn(`${BIN}/python`, ["-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)", `${BIN}/bollard`, ...command], {
    cwd: folder,
    env: { ...process.env, XDG_CONFIG_HOME: join(folder, "config"), BOLLARD_CONSOLE_BUILD: "off", COLUMNS: "200" },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const link = await new Promise<string>((resolve, reject) => {
    let shown = "";
    child.on("exit", () => reject(new Error(shown)));
    child.stdout.on("data", (part: Buffer) => {
      shown += part.toString();
      const found = LINK.exec(shown);
      if (found !== null && shown.indexOf("\n", found.index) > 0) resolve(found[0]);
    });
  });
  child.removeAllListeners("exit");
  return { link, child };
}

test("a link of the terminal signs in once, leaves no trace in the address, and another one can be had", { tag: "@smoke" }, async ({ browser }) => {
  const folder = mkdtempSync(join(tmpdir(), "bollard-visit-"));
  const { link, child } = await linkOf(folder, "up", "--data", join(folder, "data"), "--port", "0");
  const { origin, port } = new URL(link);
  try {
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(link);
    await expect(page.getByRole("navigation").first()).toBeVisible();
    await expect(page).toHaveURL(`${origin}/`);
    expect(await page.evaluate(() => [location.hash, document.cookie])).toEqual(["", ""]);
    const cookies = await context.cookies();
    expect(cookies.map(({ name, httpOnly, sameSite }) => [name.includes(port), httpOnly, sameSite])).toEqual([[true, true, "Strict"]]);

    const stranger = await browser.newContext();
    const second = await stranger.newPage();
    await second.goto(link);
    await expect(second.getByRole("heading", { name: "Sign in" })).toBeVisible();
    await expect(second.getByRole("alert")).toContainText(/\w+ \w+/);
    await expect(second).toHaveURL(`${origin}/`);
    const another = await linkOf(folder, "console", "--url", origin);
    expect(another.link).not.toBe(link);
    await second.goto(another.link); // pasted into the open page
    await expect(second.getByRole("navigation").first()).toBeVisible();
    await expect(second).toHaveURL(`${origin}/`);
    await stranger.close();
    await context.close();
  } finally {
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.stdin?.write("\u0003");
    await ended;
    rmSync(folder, { recursive: true, force: true });
  }
});

test("a password signs in, and a wrong one says so and keeps the name", async ({ browser, host }) => {
  const { user, password } = await host.user("bob", "member");
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(host.url);
  await page.getByLabel("User").fill(user);
  await page.getByLabel("Password").fill("wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("alert")).toBeVisible();
  await expect(page.getByLabel("User")).toHaveValue(user);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("navigation").first()).toBeVisible();
  await context.close();
});

test("a session that ends while a form is open asks for the password over the form and keeps what was typed", async ({ context, page, host }) => {
  await page.goto(`${host.url}/resources/channels`);
  await page.getByRole("button", { name: "Add channel" }).click();
  await page.getByRole("textbox", { name: "Id" }).fill("typed");
  await page.getByRole("textbox", { name: "Address" }).fill("https://chat.example.org/hook");
  await context.clearCookies();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("textbox", { name: "User", exact: true }).fill("ann");
  await page.getByRole("textbox", { name: "Password" }).fill("correct horse battery staple");
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("textbox", { name: "Password" })).toHaveCount(0);
  await expect(page.getByRole("textbox", { name: "Id" })).toHaveValue("typed");
  await expect(page.getByRole("textbox", { name: "Address" })).toHaveValue("https://chat.example.org/hook");
});
