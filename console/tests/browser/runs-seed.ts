/** Runs for the tests of their pages: with a tool and consent, that fail, that are long. */
import { createHmac } from "node:crypto";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Host } from "./host";

const ROOT = new URL("../../../", import.meta.url).pathname;
export interface Started {
  run_id: string;
  event_id: string;
}
interface Approval {
  approval_id: string;
  run_id: string;
  digest: string;
}

export async function send(host: Host, agent: string, text: string, over: Record<string, unknown> = {}): Promise<Started> {
  return await host.ask<Started>("POST", "/api/v1/runs", { agent, input: { text }, actor: { id: "ann", name: "Ann" }, ...over });
}

/** Waits for a record of a run by reading its stream, as any program does. */
export async function until(host: Host, runId: string, type: string): Promise<void> {
  const abort = new AbortController();
  const answer = await fetch(`${host.url}/api/v1/runs/${runId}/stream`, { headers: { authorization: `Bearer ${host.token}`, accept: "text/event-stream" }, signal: abort.signal });
  if (answer.body === null) throw new Error(`no stream of ${runId}`);
  let read = "";
  for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
    read += chunk;
    if (read.includes(`event: ${type}\n`)) break;
  }
  abort.abort();
}

/** A run that has ended. */
export async function finished(host: Host, agent: string, text: string, over: Record<string, unknown> = {}): Promise<Started> {
  const started = await send(host, agent, text, over);
  await until(host, started.run_id, "run.ended");
  return started;
}

/** An MCP server with a tool of high risk, whose calls need consent. */
export async function letters(host: Host): Promise<void> {
  await host.ask("PUT", "/api/v1/mcp-servers/letters", { command: `${ROOT}.venv/bin/python`, args: [`${ROOT}examples/mcp/letters.py`] });
  const server = await host.ask<{ tools: { name: string; definition_sha256: string }[] }>("POST", "/api/v1/mcp-servers/letters/refresh", {});
  const tools = server.tools.map(({ name, definition_sha256 }) => ({ name, definition_sha256 }));
  await host.ask("POST", "/api/v1/mcp-servers/letters/consent", { tools });
}

/** An agent with that tool. */
export async function clerk(host: Host): Promise<void> {
  await letters(host);
  const permissions = { models: ["invoke", "stream"], tools: ["detail", "call"], history: ["page"], agents: ["call"] };
  const resources = { tools: { add: ["mcp:letters/send_letter"] }, agents: { add: ["echo"] } };
  await host.ask("PUT", "/api/v1/agents/clerk", { runner_id: "plugin:bollard/local-agent/default", policy: { access: { permissions, resources } } });
}

/** A run that waits for consent, with a message that steers it. */
export async function waiting(host: Host, conversation: string): Promise<Started> {
  const run = await send(host, "clerk", 'call send_letter {"to": "ann", "text": "see you at nine"}', { conversation });
  await until(host, run.run_id, "approval.requested");
  await send(host, "clerk", "and say hello to everybody", { conversation });
  return run;
}

export async function allow(host: Host, runId: string): Promise<void> {
  const { items } = await host.ask<{ items: Approval[] }>("GET", `/api/v1/approvals?run=${runId}&status=requested`);
  for (const { approval_id, digest } of items) await host.ask("POST", `/api/v1/approvals/${approval_id}/decide`, { decision: "allow_once", digest });
  await until(host, runId, "run.ended");
}

const RESULTS = 250;

/** A run with this many records of tools, executed by a program of ours. */
export async function longRun(host: Host, records: number): Promise<string> {
  const { run_id: runId, run_token: token } = await host.ask<Started & { run_token: string }>("POST", "/api/v1/runs", { agent: "demo", input: { text: "a long day" }, execution: "external", conversation: `long-${records}` });
  const authorization = { authorization: `Bearer ${token}` };
  for (let sequence = 1; sequence <= records; sequence += RESULTS) {
    const results = Array.from({ length: Math.min(RESULTS, records - sequence + 1) }, (_, index) => {
      const number = sequence + index;
      const tool_call_id = `call_${Math.ceil(number / 2)}`;
      const data = number % 2 === 1 ? { tool_call_id, tool_name: `look_up_${number % 7}`, parameters: { number } } : { tool_call_id, tool_name: `look_up_${(number - 1) % 7}`, result: `found ${number}` };
      return { sequence: number, type: number % 2 === 1 ? "tool.call.started" : "tool.call.completed", data };
    });
    await host.ask("POST", `/api/v1/runs/${runId}/results`, { results }, authorization);
  }
  await host.ask("POST", `/api/v1/runs/${runId}/finalize`, { finish_reason: "stop", message: { role: "assistant", content: "That was a long day." } }, authorization);
  return runId;
}

/** A chat program that receives answers and confirms none of them before `confirm`. */
export class SlowChat {
  private readonly held: ServerResponse[] = [];
  private confirmed = false;
  private readonly server: Server = createServer((request, answer) => {
    request.resume().on("end", () => {
      this.held.push(answer);
      if (this.confirmed) this.confirm();
    });
  });
  private secret = "";

  async listen(): Promise<number> {
    await new Promise<void>((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    return this.port;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  /** Connects it to an agent of a host as the channel `slow-chat`. */
  async connect(host: Host, agent: string): Promise<void> {
    ({ secret: this.secret } = await host.ask<{ secret: string }>("PUT", "/api/v1/channels/slow-chat", { url: `http://127.0.0.1:${this.port}/`, abilities: { dedupe: "native" } }));
    await host.ask("PUT", "/api/v1/bindings/slow-chat", { agent_id: agent, scope: { channel: "slow-chat" } });
  }

  /** A message of a person in it, signed as Standard Webhooks asks. */
  async say(host: Host, text: string): Promise<Started> {
    const [id, now] = [`msg-${Date.now()}`, String(Math.floor(Date.now() / 1_000))];
    const body = JSON.stringify({ text, conversation: "table-4", actor: { id: "ann" } });
    const signature = createHmac("sha256", Buffer.from(this.secret.replace("whsec_", ""), "base64")).update(`${id}.${now}.${body}`).digest("base64");
    const answer = await fetch(`${host.url}/api/v1/channels/slow-chat/events`, { method: "POST", body, headers: { "webhook-id": id, "webhook-timestamp": now, "webhook-signature": `v1,${signature}` } });
    if (!answer.ok) throw new Error(await answer.text());
    return (await answer.json()) as Started;
  }

  /** Confirms every answer, those that come and those that are held. */
  confirm(): void {
    this.confirmed = true;
    for (const answer of this.held.splice(0)) answer.writeHead(204).end();
  }

  close(): void {
    this.server.closeAllConnections();
    this.server.close();
  }
}
