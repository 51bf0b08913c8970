import type { AgentRun } from "@bollard/client";
import { ChevronRight } from "lucide-react";
import type { ReactNode } from "react";
import { useFormats } from "@/i18n/format";
import { useText } from "@/i18n/i18n";
import { icons, kindTexts } from "@/parts/timeline/looks";
import { count, object, text, type Span } from "@/parts/timeline/span";
import { Badge, type Tone } from "@/ui/badge";
import { Facts, Id, Json, Time } from "@/ui/data";
import { rowWords, sentence } from "../run-words";
import { runTexts } from "../run-texts";
import { ApprovalFacts, ArtifactFacts, CallFacts, MessageFacts, ModelFacts, QuestionFacts, StateFacts } from "./facts";
import { EventFacts, GrantFacts, RouteFacts, useEvent } from "./origin";
import { Revocation } from "./revocation";

const tones: Record<Span["state"], Tone> = { open: "accent", waiting: "wait", done: "quiet", failed: "fail", cancelled: "neutral", unknown: "unknown" };
/** Steps whose own parts say the sentence. */
const SELF = new Set<Span["kind"]>(["event", "route", "grant", "delivery"]);

/** The selected step in words, then its records as they are, folded. */
export function StepDetails({ span, run }: { span: Span; run: AgentRun }): ReactNode {
  const t = useText(runTexts);
  const kinds = useText(kindTexts);
  const formats = useFormats();
  const Icon = icons[span.kind];
  const words = span.kind === "delivery" || span.kind === "run" ? "" : rowWords(span, t);
  const took = span.end === undefined ? undefined : (span.end - span.start) * 1_000;
  return (
    <div className="flex flex-col gap-4">
      <header className="flex items-start gap-2">
        <Icon aria-hidden className="mt-1 text-muted" />
        <h2 className="min-w-0 flex-1">{kinds(span.kind)} {words}</h2>
        {span.state === "done" ? null : <Badge tone={tones[span.state]}>{kinds(span.state)}</Badge>}
      </header>
      {SELF.has(span.kind) ? null : <p>{sentence(span, t, formats, run.agent_id)}</p>}
      <About span={span} run={run} />
      <Facts
        items={[
          [t("at"), <span key="at"><Time at={span.start} /> · +{formats.duration((span.start - run.created_at) * 1_000)}</span>],
          [t("took"), took === undefined || took < 0.5 ? undefined : formats.duration(took)],
        ]}
      />
      {span.kind === "event" ? <RawEvent id={run.event_id} /> : <RawRecords span={span} />}
    </div>
  );
}

function About({ span, run }: { span: Span; run: AgentRun }): ReactNode {
  switch (span.kind) {
    case "run": return <RunFacts run={run} />;
    case "event": return <EventFacts id={run.event_id} />;
    case "steering": return <EventFacts id={span.name} />;
    case "route": return <RouteFacts run={run} />;
    case "grant": return <><GrantFacts run={run} /><Revocation run={run} /></>;
    case "model": return <ModelFacts span={span} />;
    case "tool":
    case "child": return <CallFacts span={span} />;
    case "approval": return <ApprovalFacts span={span} />;
    case "question": return <QuestionFacts span={span} />;
    case "message": return <MessageFacts span={span} />;
    case "artifact": return <ArtifactFacts span={span} />;
    case "state": return <StateFacts span={span} />;
    case "delivery": return <DeliveryFacts span={span} />;
    case "call": return <ThingFacts span={span} />;
    default: return null;
  }
}

export function RunFacts({ run }: { run: AgentRun }): ReactNode {
  const t = useText(runTexts);
  const { number, cost } = useFormats();
  const usage = object(run.usage);
  const price = count(usage.cost);
  return (
    <Facts
      items={[
        [t("agent"), run.agent_id],
        [t("runner"), run.runner_id],
        [t("source"), run.source],
        [t("actor"), run.actor?.actor_name ?? run.actor?.actor_id],
        [t("conversation"), run.conversation_id],
        [t("tokens"), count(usage.total_tokens) === undefined ? undefined : number(count(usage.total_tokens) ?? 0)],
        [t("cost"), price === undefined ? undefined : cost(price)],
        [t("id"), <Id key="id" id={run.run_id} />],
      ]}
    />
  );
}

function ThingFacts({ span }: { span: Span }): ReactNode {
  const t = useText(runTexts);
  const data = span.records[0]?.data ?? {};
  return <Facts items={[[t("thing"), text(data.resource)], [t("status"), text(data.outcome)]]} />;
}

function DeliveryFacts({ span }: { span: Span }): ReactNode {
  const t = useText(runTexts);
  const data = span.records[0]?.data ?? {};
  const status = text(data.status) ?? "";
  const known = ["queued", "started", "shown", "sent", "failed", "unknown"] as const;
  return (
    <>
      <p>{t(`delivery_${known.find((each) => each === status) ?? "unknown"}`, { channel: span.name })}</p>
      <Facts items={[[t("target"), text(data.target)], [t("attempts"), count(data.attempts)], [t("reason"), text(data.reason)]]} />
    </>
  );
}

/** The event as the host returns it: the timeline has no record of it. */
function RawEvent({ id }: { id: string }): ReactNode {
  const { data: event } = useEvent(id);
  return event === undefined ? null : <Raw values={[event]} />;
}

function RawRecords({ span }: { span: Span }): ReactNode {
  const t = useText(runTexts);
  if (span.records.length === 0) return span.children.length > 0 ? null : <p className="text-sm text-muted">{t("noRecords")}</p>;
  const claimed = span.records.some((record) => !record.observed);
  if (span.kind === "delivery") return <Raw values={span.records.map((record) => record.data)} />;
  return <Raw values={span.records} note={t(claimed ? "claimed" : "observed")} />;
}

/** Records as they are, one click away. */
function Raw({ values, note }: { values: readonly unknown[]; note?: string }): ReactNode {
  const t = useText(runTexts);
  return (
    <details className="group border-t border-line pt-3">
      <summary className="flex items-center gap-1 text-muted hover:text-text">
        <ChevronRight aria-hidden className="transition-transform group-open:rotate-90" />
        {t("raw", { count: values.length })}
      </summary>
      <div className="mt-2 flex flex-col gap-2">
        {note === undefined ? null : <p className="text-sm text-muted">{note}</p>}
        {values.map((value, index) => <Json key={index} value={value} />)}
      </div>
    </details>
  );
}
