import type { AgentRun } from "@bollard/client";
import { describe, expect, test } from "vitest";
import { formats } from "@/i18n/format";
import { translator } from "@/i18n/i18n";
import { makeSpan } from "@/parts/timeline/span";
import { curlOf } from "./curl";
import { hintOf } from "./failure-texts";
import { queryOf, runFilters } from "./filters";
import { NO_ORIGINS, withOrigins } from "./origins";
import { merge, NONE, reveal, take } from "./live-rows";
import { runTexts } from "./run-texts";
import { rowWords, sentence } from "./run-words";

function run(id: string, at: number, over: Partial<AgentRun> = {}): AgentRun {
  return { run_id: id, event_id: "e", agent_id: "clerk", binding_id: "direct:clerk", runner_id: "r", workspace_id: "default", status: "completed", epoch: 1, grant_sha256: "", created_at: at, updated_at: at, ...over };
}
const ids = (rows: readonly AgentRun[]): string[] => rows.map((each) => each.run_id);

describe("live rows", () => {
  const pages = [run("b", 2), run("a", 1)];

  test("new runs come on top while the list is at its top", () => {
    const live = take(NONE, [run("c", 3), ...pages], pages, true);
    expect(ids(merge(pages, live, [], undefined).rows)).toEqual(["c", "b", "a"]);
    expect([...live.arrived]).toEqual(["c"]);
  });

  test("otherwise they wait, and nothing moves", () => {
    const live = take(NONE, [run("d", 4), run("c", 3), ...pages], pages, false);
    expect(merge(pages, live, [], undefined)).toMatchObject({ waiting: 2 });
    expect(ids(merge(pages, live, [], undefined).rows)).toEqual(["b", "a"]);
    expect(ids(merge(pages, reveal(live, pages), [], undefined).rows)).toEqual(["d", "c", "b", "a"]);
  });

  test("a run that was shown stays when it leaves the newest page", () => {
    const first = take(NONE, [run("c", 3)], pages, true);
    const second = take(first, [run("d", 4)], pages, true);
    expect(ids(merge(pages, second, [], undefined).rows)).toEqual(["d", "c", "b", "a"]);
  });

  test("states change in place; a run that no longer fits the filter leaves", () => {
    const running = [run("b", 2, { status: "running" }), run("a", 1, { status: "running" })];
    const live = take(NONE, [run("b", 2)], running, true);
    expect(merge(running, live, [run("a", 1, { status: "failed" })], undefined).rows.map((each) => each.status)).toEqual(["completed", "failed"]);
    expect(ids(merge(running, live, [], "running").rows)).toEqual(["a"]);
  });

  test("an older run that only the newest page of a filter has does not jump to the top", () => {
    expect(ids(merge(pages, take(NONE, [run("0", 0)], pages, true), [], undefined).rows)).toEqual(["b", "a"]);
  });
});

describe("filters", () => {
  test("agents, channels and people of the runs that were read become choices, and known ones change nothing", () => {
    const ann = { actor_type: "person", actor_id: "ann", actor_name: "Ann" } as const;
    const known = withOrigins(NO_ORIGINS, [run("b", 2, { source: "api", actor: ann }), run("a", 1, { agent_id: "echo" })]);
    expect([[...known.agents], [...known.sources], [...known.actors]]).toEqual([["clerk", "echo"], ["api"], [["ann", "Ann"]]]);
    expect(withOrigins(known, [run("0", 0, { source: "api", actor: ann })])).toBe(known);
    expect([...withOrigins(known, [run("0", 0, { source: "hook" })]).sources]).toEqual(["api", "hook"]);
  });

  test("what makes no sense is left out", () => {
    expect(runFilters({ status: "flying", time: "never", page: 7, agent: "  ", actor: 42, text: "letter" })).toEqual({ actor: "42", text: "letter" });
  });

  test("a time is a beginning in whole minutes", () => {
    expect(queryOf({ time: "1h", status: "failed" }, 7_265)).toEqual({ status: "failed", since: 3_660 });
  });
});

describe("curl", () => {
  test("the command sends the message again, whatever is in it, without a token", () => {
    const command = curlOf(run("r", 1, { conversation_id: "desk" }), { text: "it's `me` $HOME" }, "http://h");
    expect(command).toContain(String.raw`"text":"it'\''s ` + "`me` $HOME" + `"`);
    expect(command).toContain('-H "Authorization: Bearer $BOLLARD_TOKEN"');
  });

  test("attachments and data are sent again, with the conversation that they belong to", () => {
    const contents = [{ type: "text", text: "see the plan" }, { type: "artifact", artifact_id: "art_1" }];
    const command = curlOf(run("r", 1, { conversation_id: "desk", thread_id: "t1", input: "look" }), { trigger: "api", contents, data: { pages: 2 } }, "http://h");
    expect(JSON.parse(/-d '(.*)'$/.exec(command)?.[1] ?? "")).toEqual({ agent: "clerk", input: { text: "look", contents }, data: { pages: 2 }, conversation: "desk", thread: "t1" });
  });

  test("an event without words is sent again by its data alone", () => {
    expect(curlOf(run("r", 1), { data: { branch: "main" } }, "http://h")).toContain('{"agent":"clerk","input":{},"data":{"branch":"main"}}');
  });

  test("without the message it reads the run", () => {
    expect(curlOf(run("run_1", 1), { contents: [], data: {} }, "http://h")).toMatch(/'http:\/\/h\/api\/v1\/runs\/run_1'$/);
  });
});

describe("words", () => {
  const t = translator(runTexts, "en");
  const record = (type: string, data: Record<string, unknown>): never => ({ type, data, seq: 1, epoch: 1, run_id: "r", observed: true, created_at: 1 }) as never;

  test("a decision names who, what and after how long", () => {
    const span = makeSpan("approval:a", "approval", "exec", 10, { end: 22, records: [record("approval.granted", { decision: "allow_once", by: "li" })] });
    expect(sentence(span, t, formats("en"), "clerk")).toBe("li allowed exec once, after 12 sec.");
    expect(rowWords(span, t)).toBe("exec: allowed");
  });

  test("a model that failed says its reason, and a fallback whom it replaces", () => {
    const failed = makeSpan("model:1", "model", "big", 1, { state: "failed", records: [record("model.called", { reason: "rate_limited" })] });
    expect(sentence(failed, t, formats("en"), "clerk")).toBe("The model big failed: rate_limited.");
    const next = makeSpan("model:2", "model", "small", 1, { fallbackOf: "big", records: [record("model.called", { latency_ms: 1_200, first_token_ms: 300 })] });
    expect(sentence(next, t, formats("en"), "clerk")).toBe("The model small answered in 1.2 sec. Its first word came after 300 ms. It took the place of big, which had failed.");
  });

  test("a record of an unknown type has a sentence too", () => {
    expect(sentence(makeSpan("other:1", "other", "moon.rose", 1, { records: [record("moon.rose", {})] }), t, formats("en"), "clerk")).toBe("The host wrote a record of the type moon.rose.");
  });

  test("every failure code has a hint, also one that is not known yet", () => {
    expect(hintOf("runner.error", "big")).toBe("model");
    expect(hintOf("runner.error", undefined)).toBe("runner.error");
    expect(hintOf("moon.gone", undefined)).toBe("other");
  });
});
