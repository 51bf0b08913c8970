/** What the records of a step say beyond its sentence. Every text of a record is foreign and stays text. */
import { getArtifactContent } from "@bollard/client";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useSession } from "@/api/session";
import { useFormats } from "@/i18n/format";
import { useText } from "@/i18n/i18n";
import { DownloadButton } from "@/parts/download";
import { RiskBadge } from "@/parts/risk-badge";
import { contentText, count, dataOf, list, object, text, type Data, type Span } from "@/parts/timeline/span";
import { Button } from "@/ui/button";
import { Code, Facts, Id } from "@/ui/data";
import { Markdown } from "@/ui/markdown";
import { runTexts } from "../run-texts";

export function Part({ title, children }: { title: string; children: ReactNode }): ReactNode {
  return (
    <section className="flex flex-col gap-1.5">
      <h3 className="text-sm font-medium text-muted">{title}</h3>
      {children}
    </section>
  );
}

/** A value of a record: a text as it is, everything else as JSON. */
export function Value({ value, label }: { value: unknown; label: string }): ReactNode {
  return <Code label={label} text={typeof value === "string" ? value : JSON.stringify(value, null, 2)} />;
}

export function ModelFacts({ span }: { span: Span }): ReactNode {
  const t = useText(runTexts);
  const { number, cost, duration } = useFormats();
  const data = dataOf(span, "model.called") ?? {};
  const usage = object(data.usage);
  const estimated = data.estimated === true ? ` (${t("estimated")})` : "";
  const tokens = (value: unknown): string | undefined => (count(value) === undefined ? undefined : `${number(count(value) ?? 0)}${estimated}`);
  const price = count(data.cost);
  return (
    <Facts
      items={[
        [t("provider"), [text(data.provider), text(data.model)].filter(Boolean).join(" · ")],
        [t("in"), tokens(usage.prompt_tokens)],
        [t("out"), tokens(usage.completion_tokens)],
        [t("cost"), price === undefined ? undefined : data.currency === undefined || data.currency === "USD" ? cost(price) : `${price} ${text(data.currency) ?? ""}`],
        [t("took"), count(data.latency_ms) === undefined ? undefined : duration(count(data.latency_ms) ?? 0)],
        [t("reason"), text(data.reason)],
      ]}
    />
  );
}

function risk(value: unknown): ReactNode {
  return typeof value === "string" ? <RiskBadge bare risk={value} /> : undefined;
}

function effects(value: unknown, t: (key: `effects_${"none" | "idempotent" | "at_most_once"}`) => string): string | undefined {
  return value === "none" || value === "idempotent" || value === "at_most_once" ? t(`effects_${value}`) : text(value);
}

export function CallFacts({ span }: { span: Span }): ReactNode {
  const t = useText(runTexts);
  const begun = dataOf(span, "action.started") ?? dataOf(span, "tool.call.started") ?? dataOf(span.children[0] ?? span, "approval.requested") ?? {};
  const done = ["action.completed", "action.failed", "action.rejected", "action.unknown", "tool.call.completed"].map((type) => dataOf(span, type)).find(Boolean) ?? {};
  const child = text(object(done.structured).run_id);
  const error = done.error ?? done.message ?? done.reason;
  return (
    <>
      <Facts items={[[t("risk"), risk(begun.risk)], [t("effects"), effects(begun.effects, t)], [t("source"), text(begun.source)], [t("id"), <Id key="id" id={span.id.slice("call:".length)} />]]} />
      {begun.arguments === undefined && begun.parameters === undefined ? null : <Part title={t("arguments")}><Value label={t("arguments")} value={begun.arguments ?? begun.parameters} /></Part>}
      {output(done, span) === undefined ? null : <Part title={t("output")}><Value label={t("output")} value={output(done, span)} /></Part>}
      {error === undefined || error === null ? null : <Part title={t("error")}><Value label={t("error")} value={error} /></Part>}
      {child === undefined ? null : <Button asChild className="self-start"><Link to="/runs/$runId" params={{ runId: child }}>{t("openChild")}</Link></Button>}
    </>
  );
}

function output(done: Data, span: Span): unknown {
  const said = contentText(done.content);
  if (said !== "") return said;
  const told = span.records.findLast((record) => record.type === "message.completed");
  return done.structured ?? done.result ?? (told === undefined ? undefined : contentText(object(told.data.message).content) || undefined);
}

export function ApprovalFacts({ span }: { span: Span }): ReactNode {
  const t = useText(runTexts);
  const { may } = useSession();
  const asked = dataOf(span, "approval.requested") ?? {};
  const requester = object(asked.requester);
  return (
    <>
      <Facts items={[[t("risk"), risk(asked.risk)], [t("actor"), text(requester.name) ?? text(requester.id)], [t("source"), text(asked.source)]]} />
      {asked.arguments === undefined ? null : <Part title={t("arguments")}><Value label={t("arguments")} value={asked.arguments} /></Part>}
      {span.end === undefined && may("approvals.read") ? <Button asChild kind="wait" className="self-start"><Link to="/approvals">{t("openApproval")}</Link></Button> : null}
    </>
  );
}

export function QuestionFacts({ span }: { span: Span }): ReactNode {
  const t = useText(runTexts);
  const asked = dataOf(span, "question.asked") ?? {};
  const answer = text(dataOf(span, "question.answered")?.answer);
  const choices = list(asked.choices).map(String);
  return (
    <>
      <Code text={span.name} />
      <Facts items={[[t("choices"), choices.join(", ")], [t("answer"), answer]]} />
    </>
  );
}

export function MessageFacts({ span }: { span: Span }): ReactNode {
  const t = useText(runTexts);
  const { number } = useFormats();
  const message = object(span.records.findLast((record) => record.type === "message.completed")?.data.message);
  const calls = list(message.tool_calls).map((call) => object(object(call).function));
  return (
    <>
      {span.text === "" ? null : <div className="rounded-md border border-line p-3"><Markdown text={span.text} streaming={span.end === undefined} /></div>}
      {calls.map((call, index) => (
        <Part key={index} title={text(call.name) ?? ""}><Value label={t("arguments")} value={text(call.arguments) ?? call.arguments ?? {}} /></Part>
      ))}
      <Facts items={[[t("message_parts"), span.deltas === 0 ? undefined : number(span.deltas)], [t("reason"), text(message.finish_reason)]]} />
    </>
  );
}

export function ArtifactFacts({ span }: { span: Span }): ReactNode {
  const t = useText(runTexts);
  const { bytes } = useFormats();
  const { may } = useSession();
  const data = span.records[0]?.data ?? {};
  const id = text(data.artifact_id);
  const size = count(data.size_bytes) ?? count(data.size);
  return (
    <>
      <Facts items={[[t("type"), text(data.mime_type)], [t("size"), size === undefined ? undefined : bytes(size)], [t("id"), id === undefined ? undefined : <Id key="id" id={id} />]]} />
      {id === undefined || !may("artifacts.read") ? null : (
        <DownloadButton name={text(data.name) ?? id} ask={() => getArtifactContent({ path: { artifact_id: id }, parseAs: "blob" })}>{t("download")}</DownloadButton>
      )}
    </>
  );
}

export function StateFacts({ span }: { span: Span }): ReactNode {
  const t = useText(runTexts);
  const data = span.records[0]?.data ?? {};
  return (
    <>
      <Facts items={[[t("version"), count(data.version)], [t("reason"), text(data.reason)]]} />
      {data.value === undefined ? null : <Part title={t("value")}><Value label={t("value")} value={data.value} /></Part>}
    </>
  );
}
