import { describe, expect, it } from "vitest";
import type { Schema } from "@/parts/schema-form/schema";
import { described, type SavedKind } from "./described";
import { fieldNames } from "./field-names";
import { valueWords } from "./field-words";

/** The kinds with a form, and the fields that pages draw themselves or hide. */
const FORMS: Partial<Record<SavedKind, readonly string[]>> = {
  agents: ["agent_id", "runner_id", "label", "config", "description", "commands", "enabled", "warnings", "policy.access.permissions", "policy.access.resources"],
  bindings: ["binding_id", "agent_id", "filters"],
  bots: ["bot_id"],
  channels: ["channel_id"],
  hooks: ["hook_id", "verifier.kind", "secret", "agent", "event.text", "event.conversation"],
  keys: [],
  knowledge: ["kb_id"],
  "mcp-servers": ["server_id", "command", "args", "env", "url", "headers", "auth"],
  models: ["model_id", "style", "base_url", "model", "secret"],
  actors: [],
  runtimes: [],
  schedules: ["schedule_id", "cron", "every_s", "at", "zone", "agent_id", "text", "effective_from", "proposed_by"],
  secrets: [],
  skills: ["skill_id", "files"],
  subscriptions: ["subscription_id", "problem"],
  users: ["user_id"],
  workspaces: ["workspace_id"],
};

interface Drawn {
  path: string;
  schema: Schema;
}

function drawn(schema: Schema | undefined, hidden: readonly string[], path = ""): Drawn[] {
  return Object.entries(schema?.properties ?? {})
    .filter(([name]) => !hidden.includes(path + name) && name !== "revision")
    .flatMap(([name, each]) => [{ path: path + name, schema: each }, ...drawn(each, hidden, `${path}${name}.`)]);
}

const CHINESE = /[\u4e00-\u9fff]|^(ID|Webhook)$/;

describe.each(Object.entries(FORMS) as [SavedKind, readonly string[]][])("the form of %s", (kind, hidden) => {
  const fields = drawn(described(kind).body, hidden).filter(({ path }) => path !== "policy"); // the page draws its groups
  const names = fieldNames(kind);

  it("has a Chinese label for every field", () => {
    expect(fields.map(({ path }) => path).filter((path) => !CHINESE.test(names.label(path, "zh")))).toEqual([]);
  });

  it("has Chinese help wherever it has English help", () => {
    const missing = fields.filter(({ path, schema }) => names.help(path, "en", schema.description) !== undefined && !CHINESE.test(names.help(path, "zh", schema.description) ?? ""));
    expect(missing.map(({ path }) => path)).toEqual([]);
  });
});

it("words values that the host knows, and no others", () => {
  for (const [key, words] of Object.entries(valueWords)) {
    const kind = key.split(".")[0] as SavedKind;
    const path = key.slice(kind.length + 1);
    const field = drawn(described(kind).body, []).find((each) => each.path === path);
    expect(Object.keys(words).toSorted(), key).toEqual([...(field?.schema.enum ?? field?.schema.items?.enum ?? [])].toSorted());
  }
});
