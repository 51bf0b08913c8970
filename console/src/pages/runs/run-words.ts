/** What a step of a run is, in one sentence and in a few words. Pure: the page and its tests use them alike. */
import type { Formats } from "@/i18n/format";
import type { Translate } from "@/i18n/i18n";
import { count, dataOf, text, type Span } from "@/parts/timeline/span";
import type { RunText } from "./run-texts";

type T = Translate<RunText>;
const SNIPPET = 80;

/** The words of a row beside its kind. */
export function rowWords(span: Span, t: T): string {
  const { kind, name } = span;
  if (kind === "route") return routeWords(name, t);
  if (kind === "message") return messageWords(span, t);
  if (kind === "steering") return t(`row_steering_${steeringState(span)}`);
  if (kind === "approval") return t(approvalRow(span), { name });
  if (kind === "end") return endWords(span, t);
  return kind === "start" || kind === "grant" || kind === "cancel" ? "" : firstLine(name);
}

export function viaOf(binding: string): "direct" | "call" | "bot" | "binding" {
  const via = binding.slice(0, Math.max(0, binding.indexOf(":")));
  return via === "direct" || via === "call" || via === "bot" ? via : "binding";
}

function routeWords(binding: string, t: T): string {
  return t(`row_${viaOf(binding)}`, { name: binding });
}

function messageWords(span: Span, t: T): string {
  const said = firstLine(span.text);
  if (said === "" && span.name !== "" && span.name !== "assistant") return t("row_asks", { names: span.name });
  return span.deltas > 0 ? t("row_parts", { text: said, count: span.deltas }) : said;
}

export function firstLine(said: string): string {
  const line = said.trimStart().split("\n", 1)[0] ?? "";
  return line.length > SNIPPET ? `${line.slice(0, SNIPPET)}…` : line;
}

export function steeringState(span: Span): "queued" | "injected" | "acknowledged" | "dropped" {
  const last = span.records.at(-1)?.type.slice("steering.".length);
  return last === "injected" || last === "acknowledged" || last === "dropped" ? last : "queued";
}

function approvalRow(span: Span): "row_granted" | "row_denied" | "row_expired" | "row_waiting" {
  if (dataOf(span, "approval.granted") !== undefined) return "row_granted";
  if (dataOf(span, "approval.denied") !== undefined) return "row_denied";
  return span.end === undefined ? "row_waiting" : "row_expired";
}

function endWords(span: Span, t: T): string {
  const status = text(dataOf(span, "run.ended")?.status);
  if (status === "completed" || status === "failed" || status === "cancelled" || status === "timeout") {
    return span.name === "" || span.name === status ? t(`row_${status}`) : `${t(`row_${status}`)} · ${span.name}`;
  }
  return span.name;
}

/** The sentence of a step. */
export function sentence(span: Span, t: T, formats: Formats, agent: string): string {
  const time = formats.duration(((span.end ?? span.start) - span.start) * 1_000);
  const { kind, name, state } = span;
  const by = text(span.records.map((record) => record.data.by).find((value) => value !== undefined)) ?? t("somebody");
  if (kind === "run") return state === "open" ? t("run_open", { agent }) : state === "waiting" ? t("run_waits", { agent }) : t("run_said", { agent, time });
  if (kind === "start") return t("start_said", { time });
  if (kind === "model") return modelSentence(span, t, formats);
  if (kind === "tool") return t(state === "failed" || state === "waiting" || state === "open" || state === "unknown" || state === "cancelled" ? `tool_${state}` : "tool_done", { name, time: runningTime(span, formats) });
  if (kind === "child") return t(state === "failed" || state === "open" ? `child_${state}` : "child_done", { name: name.replace(/^agent:/, ""), time: runningTime(span, formats) });
  if (kind === "approval") return approvalSentence(span, t, { name, by, time });
  if (kind === "question") return t(state === "waiting" ? "question_waiting" : state === "done" ? "question_answered" : "question_expired", { time });
  if (kind === "message") return state === "open" ? t("message_open", { count: span.deltas }) : span.text === "" && span.name !== "assistant" ? t("message_asks", { names: span.name }) : t("message_done", { time });
  if (kind === "steering") return t(`steering_${steeringState(span)}`);
  return momentSentence(span, t, by);
}

function momentSentence(span: Span, t: T, by: string): string {
  const { kind, name, state } = span;
  const record = span.records[0];
  const data = record?.data ?? {};
  const verb = record?.type.slice(record.type.lastIndexOf(".") + 1);
  if (kind === "state") return t(verb === "deleted" || verb === "refused" ? `state_${verb}` : "state_updated", { key: name, scope: text(data.scope) ?? "plugin" });
  if (kind === "artifact") return t(verb === "deleted" ? "artifact_deleted" : "artifact_created", { name });
  if (kind === "call") return state === "failed" ? t("call_failed", { action: name, reason: text(data.outcome) ?? "" }) : t("call_done", { action: name });
  if (kind === "cancel") return t("cancel_said");
  if (kind === "revoked") return t("revoked_said", { by });
  if (kind === "problem") return t("problem_said", { problem: name });
  if (kind === "end") return state === "done" ? t("end_done") : t("end_said", { reason: text(dataOf(span, "run.ended")?.error) ?? name });
  return t("other_said", { type: name });
}

function modelSentence(span: Span, t: T, formats: Formats): string {
  const data = dataOf(span, "model.called") ?? {};
  const model = span.name;
  const first = count(data.first_token_ms);
  if (span.state === "cancelled") return t("model_cancelled", { model });
  const said = span.state === "failed" ? [t("model_failed", { model, reason: text(data.reason) ?? "" })] : [t("model_done", { model, time: formats.duration(count(data.latency_ms) ?? 0) })];
  if (span.state === "done" && first !== undefined) said.push(t("model_first", { time: formats.duration(first) }));
  if (span.fallbackOf !== undefined) said.push(t("model_fallback", { name: span.fallbackOf }));
  return said.join(" ");
}

/** How long a tool itself took, without the wait for consent. */
function runningTime(span: Span, formats: Formats): string {
  return formats.duration(count(dataOf(span, "action.completed")?.duration_ms) ?? ((span.end ?? span.start) - span.start) * 1_000);
}

function approvalSentence(span: Span, t: T, fields: { name: string; by: string; time: string }): string {
  const granted = dataOf(span, "approval.granted");
  if (granted !== undefined) return t(granted.decision === "allow_run" ? "approval_allow_run" : "approval_allow_once", fields);
  if (dataOf(span, "approval.denied") !== undefined) return t("approval_denied", fields);
  return t(span.end === undefined ? "approval_waiting" : "approval_expired", fields);
}
