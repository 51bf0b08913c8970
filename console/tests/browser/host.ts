/** A real host for the browser tests: its process, its admin token, and pages that are signed in. */
import { test as base, expect, type BrowserContext, type Cookie, type Page } from "@playwright/test";
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const PROGRAM = new URL("../../../.venv/bin/bollard", import.meta.url).pathname;

export class Host {
  private process: ChildProcess | undefined;
  private readonly folder = mkdtempSync(join(tmpdir(), "bollard-console-"));
  private port = 0;
  token = "";
  private readonly roles = new Map<string, string>();
  private readonly cookies = new Map<string, Cookie[]>();

  /** `variables` are settings of the host. */
  constructor(private readonly variables: Readonly<Record<string, string>> = {}) {}

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Starts the host, on the same port and data after a stop. */
  async start(options: readonly string[] = []): Promise<void> {
    const child = spawn(PROGRAM, ["up", "--data", join(this.folder, "data"), "--port", String(this.port), ...options], {
      cwd: this.folder,
      env: { ...process.env, XDG_CONFIG_HOME: join(this.folder, "config"), BOLLARD_LOG_LEVEL: "warning", BOLLARD_CONSOLE_BUILD: "off", ...this.variables },
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.process = child;
    const agents = new Set(["demo", "echo"]);
    await new Promise<void>((resolve, reject) => {
      child.on("exit", (code) => reject(new Error(`the host ended with ${String(code)}`)));
      createInterface({ input: child.stdout }).on("line", (line) => {
        const said = JSON.parse(line) as Record<string, string>;
        if (said.event === "listening") this.port = Number(said.address?.split(":").at(-1));
        if (said.event === "token" && said.token !== undefined) this.token = said.token;
        if (said.event === "agent.ready" && said.agent !== undefined) agents.delete(said.agent);
        if (this.port > 0 && this.token !== "" && agents.size === 0) resolve();
      });
    });
  }

  /** Stops the host; `SIGKILL` is a crash. */
  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    const child = this.process;
    if (child === undefined) return;
    this.process = undefined;
    child.removeAllListeners("exit");
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill(signal);
    await ended;
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** One request of the API with the admin token. */
  async ask<T = Record<string, unknown>>(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<T> {
    const answer = await fetch(this.url + path, {
      method,
      headers: { authorization: `Bearer ${this.token}`, "content-type": "application/json", ...headers },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return JSON.parse(text) as T;
  }

  /** A user with a password and a role. A new password would end the user's sessions, so it is set once. */
  async user(name: string, role: string): Promise<{ user: string; password: string }> {
    const password = "correct horse battery staple";
    if (this.roles.get(name) !== role) await this.ask("PUT", `/api/v1/users/${name}`, { role, password });
    this.roles.set(name, role);
    return { user: name, password };
  }

  /** Signs a browser in by the form's own request, so that its cookie is the real one. Logins are limited by the host: tests share them. */
  async signIn(context: BrowserContext, user: string, password: string): Promise<void> {
    await context.clearCookies();
    await context.addCookies(this.cookies.get(user) ?? []);
    if ((await context.request.get(`${this.url}/api/v1/session`)).ok()) return;
    const answer = await context.request.post(`${this.url}/api/v1/session`, {
      data: { user, password, cookie: true },
      headers: { origin: this.url },
    });
    expect(answer.status(), await answer.text()).toBe(201);
    this.cookies.set(user, await context.cookies(this.url));
  }
}

/** `host` lives for all tests of a worker; `page` is signed in as an admin. */
export const test = base.extend<{ page: Page }, { host: Host }>({
  host: [
    async ({}, use) => {
      const host = new Host();
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
  page: async ({ context, host }, use) => {
    const { user, password } = await host.user("ann", "admin");
    await host.signIn(context, user, password);
    const page = await context.newPage();
    await page.goto(host.url);
    await use(page);
  },
});
export { expect };
