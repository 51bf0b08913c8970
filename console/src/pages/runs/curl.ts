import type { AgentRun } from "@bollard/client";

/** A command that sends the same message again. The token stays out of it. */
export function curlOf(run: AgentRun, input: string | undefined, origin: string): string {
  const head = [`-H "Authorization: Bearer $BOLLARD_TOKEN"`, `-H ${quote(`Bollard-Workspace: ${run.workspace_id}`)}`];
  if (input === undefined) return ["curl", ...head, quote(`${origin}/api/v1/runs/${run.run_id}`)].join(" ");
  const body = {
    agent: run.agent_id,
    input: { text: input },
    ...(run.conversation_id == null ? {} : { conversation: run.conversation_id }),
    ...(run.thread_id == null ? {} : { thread: run.thread_id }),
  };
  return ["curl", "-X POST", quote(`${origin}/api/v1/runs`), ...head, `-H "Content-Type: application/json"`, "-d", quote(JSON.stringify(body))].join(" ");
}

/** One word of a shell, whatever is in it. */
function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
