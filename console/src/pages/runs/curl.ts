import type { AgentRun } from "@bollard/client";
import { text, type Data } from "@/parts/timeline/span";

/** A command that sends the same message again, with its contents and data. The token stays out of it. */
export function curlOf(run: AgentRun, content: Data, origin: string): string {
  const head = [`-H "Authorization: Bearer $BOLLARD_TOKEN"`, `-H ${quote(`Bollard-Workspace: ${run.workspace_id}`)}`];
  const input = { ...filled("text", text(content.text) ?? run.input ?? undefined), ...filled("contents", content.contents) };
  const data = filled("data", content.data);
  if (Object.keys(input).length === 0 && Object.keys(data).length === 0) return ["curl", ...head, quote(`${origin}/api/v1/runs/${run.run_id}`)].join(" ");
  const body = { agent: run.agent_id, input, ...data, ...filled("conversation", run.conversation_id), ...filled("thread", run.thread_id) };
  return ["curl", "-X POST", quote(`${origin}/api/v1/runs`), ...head, `-H "Content-Type: application/json"`, "-d", quote(JSON.stringify(body))].join(" ");
}

/** A field of the body, left out if it is empty. */
function filled(name: string, value: unknown): Data {
  const empty = value === undefined || value === null || (typeof value === "object" && Object.keys(value).length === 0);
  return empty ? {} : { [name]: value };
}

/** One word of a shell, whatever is in it. */
function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
