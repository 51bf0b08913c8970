/** The head of a run: what it was about, its state, what a person can do, and why it failed. */
import { ApiError, type AgentRun } from "@bollard/client";
import { Link } from "@tanstack/react-router";
import { CircleStop, GitFork, MessageSquare, RotateCcw, TriangleAlert } from "lucide-react";
import { useState, type ReactNode } from "react";
import { useSession } from "@/api/session";
import { useErrorText } from "@/i18n/errors";
import { useFormats } from "@/i18n/format";
import { useText } from "@/i18n/i18n";
import { count, object, text, type Data } from "@/parts/timeline/span";
import { RunState } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Id, Time } from "@/ui/data";
import { CopyButton } from "@/ui/feedback";
import { Tooltip } from "@/ui/overlay";
import { curlOf } from "./curl";
import { failureHints, hintOf } from "./failure-texts";
import { runTexts } from "./run-texts";
import { ACTIVE, StopRun } from "./stop-run";

export function RunHead({ run, status, until, content }: { run: AgentRun; status: string; until: number; content: Data }): ReactNode {
  const t = useText(runTexts);
  const { duration, cost } = useFormats();
  const price = count(object(run.usage).cost);
  const took = ((run.finished_at ?? until) - run.created_at) * 1_000;
  const facts = [run.agent_id, run.source, run.actor?.actor_name ?? run.actor?.actor_id].filter((each): each is string => typeof each === "string" && each !== "");
  return (
    <header className="flex flex-wrap items-start gap-x-4 gap-y-2">
      <div className="min-w-0 flex-1 basis-72">
        <div className="flex items-center gap-3">
          <h1 className="truncate" title={run.input ?? undefined}>{run.input ?? run.agent_id}</h1>
          <RunState state={status} className="shrink-0" />
        </div>
        <p className="flex flex-wrap items-center gap-x-4 text-muted">
          {facts.map((fact, index) => <span key={index} className="max-w-60 truncate">{fact}</span>)}
          <Time at={run.created_at} />
          <span>{duration(took)}</span>
          {price === undefined ? null : <span>{cost(price)}</span>}
          <Id id={run.run_id} />
          {run.parent_run_id == null ? null : <Link to="/runs/$runId" params={{ runId: run.parent_run_id }} className="text-accent-text hover:underline">{t("parent")} …{run.parent_run_id.slice(-4)}</Link>}
        </p>
      </div>
      <RunActions run={run} status={status} content={content} />
    </header>
  );
}

function RunActions({ run, status, content }: { run: AgentRun; status: string; content: Data }): ReactNode {
  const t = useText(runTexts);
  const { may } = useSession();
  const [stopping, setStopping] = useState(false);
  const chat: string = `/chat?${new URLSearchParams({ conversation: run.conversation_id ?? "", agent: run.agent_id }).toString()}`;
  return (
    <div className="flex flex-wrap gap-2">
      {ACTIVE.has(status) && may("runs.control") ? <Button kind="danger" onClick={() => setStopping(true)}><CircleStop aria-hidden />{t("stop")}</Button> : null}
      {run.conversation_id == null || !may("runs.create") ? null : (
        <Button asChild>
          <Link to={chat}><MessageSquare aria-hidden />{t("openConversation")}</Link>
        </Button>
      )}
      <CopyButton text={curlOf(run, content, location.origin)} label={t("copyCurl")} className="h-8" />
      {may("runs.create") ? <Later name={t("replay")} icon={<RotateCcw aria-hidden />} /> : null}
      {may("runs.create") ? <Later name={t("fork")} icon={<GitFork aria-hidden />} /> : null}
      <StopRun runId={stopping ? run.run_id : undefined} onClose={() => setStopping(false)} />
    </div>
  );
}

/** A button for what does not exist yet: it can be reached, and says so. */
function Later({ name, icon }: { name: string; icon: ReactNode }): ReactNode {
  const t = useText(runTexts);
  return <Tooltip text={t("later")}><Button kind="ghost" aria-disabled>{icon}{name}</Button></Tooltip>;
}

/** Why a run failed, in a sentence, and what to do about it. */
export function FailureNote({ run, failedModel }: { run: AgentRun; failedModel: string | undefined }): ReactNode {
  const t = useText(runTexts);
  const hints = useText(failureHints);
  const { may } = useSession();
  const error = object(run.error);
  const code = text(error.code) ?? run.status_reason ?? run.status;
  const said = text(error.message) ?? "";
  const { message } = useErrorText(new ApiError({ code: "run_ended", message: said === "" ? t(titleOf(run.status)) : said, details: { problem: said, ...object(error.details), reason: code } }, 0));
  const plugin = run.runner_id.replace(/^plugin:/, "").split("/").slice(0, 2).join("/");
  const hint = hintOf(code, failedModel);
  const quiet = run.status === "cancelled";
  return (
    <div role="alert" className={quiet ? "flex gap-3 rounded-lg border border-line bg-raised p-3" : "flex gap-3 rounded-lg border border-fail/40 bg-fail-soft p-3"}>
      <TriangleAlert aria-hidden className={quiet ? "mt-0.5 text-muted" : "mt-0.5 text-fail"} />
      <div className="min-w-0 flex-1">
        <p className="font-medium">{t("because", { what: t(titleOf(run.status)), why: message })}</p>
        <p className="text-muted">{hints(hint, { plugin, model: failedModel })}</p>
        <p className="mt-1 flex flex-wrap items-center gap-3 text-sm">
          <code className="font-mono text-muted">{code}</code>
          {hint === "model" && may("models.read") ? <Link to="/models" className="text-accent-text hover:underline">{t("openModels")}</Link> : null}
          {/^(runner\.(error|crashed|no_output|protocol)|host\.overloaded)$/.test(hint) && may("plugins.read") ? <Link to="/plugins" className="text-accent-text hover:underline">{t("openPlugins")}</Link> : null}
          {/timeout|too_large|budget/.test(hint) && may("agents.read") ? <Link to="/agents" className="text-accent-text hover:underline">{t("openAgent")}</Link> : null}
        </p>
      </div>
    </div>
  );
}

function titleOf(status: string): "failed" | "timeout" | "cancelled" {
  return status === "timeout" || status === "cancelled" ? status : "failed";
}
