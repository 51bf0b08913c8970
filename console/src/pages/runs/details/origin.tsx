/** Where a run comes from: its event, its route, its grant; and messages that steered it. */
import { explainRunPermissions, getEvent, getRunRoute, type AgentRun } from "@bollard/client";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useSession } from "@/api/session";
import { useLanguage, useText } from "@/i18n/i18n";
import { PermissionSentences } from "@/parts/permission-sentences";
import { object, text } from "@/parts/timeline/span";
import { Code, Facts, Id, Time } from "@/ui/data";
import { ErrorNote, Skeleton } from "@/ui/feedback";
import { runTexts } from "../run-texts";
import { Part, Value } from "./facts";

/** The event of a run, or of a message that steered it. */
export function useEvent(id: string): ReturnType<typeof useQuery<Awaited<ReturnType<typeof getEvent>>>> {
  const { may } = useSession();
  return useQuery({ queryKey: ["events", id], queryFn: () => getEvent({ path: { event_id: id } }), enabled: id !== "" && may("events.read"), staleTime: Infinity });
}

export function EventFacts({ id }: { id: string }): ReactNode {
  const t = useText(runTexts);
  const query = useEvent(id);
  if (query.error !== null) return <ErrorNote error={query.error} />;
  const event = query.data;
  if (event === undefined) return query.isLoading ? <Skeleton rows={3} /> : null;
  const content = object(event.content);
  const actor = event.actor_name ?? event.actor_id;
  const { text: said, data, ...rest } = content;
  return (
    <>
      <p>{actor === null ? t("event_plain", { type: event.type, source: event.source }) : t("event_said", { actor, source: event.source })}</p>
      {event.content === undefined ? <p className="text-muted">{t("dropped")}</p> : null}
      {text(said) === undefined ? null : <Part title={t("text")}><Code text={text(said) ?? ""} label={t("text")} /></Part>}
      {data === undefined ? null : <Part title={t("value")}><Value label={t("value")} value={data} /></Part>}
      <Facts
        items={[
          [t("type"), event.type],
          [t("source"), event.source],
          [t("actor"), [event.actor_name, event.actor_id].filter(Boolean).join(" · ")],
          [t("conversation"), event.conversation_id],
          [t("at"), <Time key="at" at={event.created_at} />],
          [t("id"), <Id key="id" id={event.event_id} />],
          ...Object.entries(rest).filter(([, value]) => typeof value === "string" && value !== "").map(([name, value]) => [name, String(value)] as const),
        ]}
      />
    </>
  );
}

export function RouteFacts({ run }: { run: AgentRun }): ReactNode {
  const t = useText(runTexts);
  const { language } = useLanguage();
  const query = useQuery({
    queryKey: ["routes", run.run_id, language],
    queryFn: () => getRunRoute({ path: { run_id: run.run_id }, query: { locale: language === "zh" ? "zh_Hans" : "en_US" } }),
  });
  if (query.error !== null) return <ErrorNote error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data === undefined) return <Skeleton rows={2} />;
  const { via, binding_id: name, agent_id: agent, current, steps } = query.data;
  return (
    <>
      <p>{t(`said_${via}`, { name, agent })}</p>
      {current === null || via === "direct" || via === "call" ? null : <p className="text-muted">{t(current ? "route_current" : "route_changed")}</p>}
      {steps.length === 0 || via === "direct" || via === "call" ? null : (
        <Part title={t("route_steps")}>
          <ol className="flex list-decimal flex-col gap-1 pl-5">{steps.map((step, index) => <li key={index}>{step.text}</li>)}</ol>
        </Part>
      )}
    </>
  );
}

/** What the run may do, in the host's sentences. */
export function GrantFacts({ run }: { run: AgentRun }): ReactNode {
  const t = useText(runTexts);
  const { may } = useSession();
  const { language } = useLanguage();
  const query = useQuery({
    queryKey: ["permissions", run.run_id, language],
    queryFn: () => explainRunPermissions({ path: { run_id: run.run_id }, query: { locale: language === "zh" ? "zh_Hans" : "en_US" } }),
    enabled: may("grants.read"),
  });
  if (!may("grants.read")) return <p className="text-muted">{t("grant_hidden")}</p>;
  if (query.error !== null) return <ErrorNote error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data === undefined) return <Skeleton rows={4} />;
  return <PermissionSentences items={query.data.items} />;
}
