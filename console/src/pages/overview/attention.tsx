/** What needs a person: a list in which every entry leads to where it can be dealt with. */
import { listRunners, type Overview } from "@bollard/client";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CircleAlert, CircleCheck, CirclePause, Cpu, TriangleAlert, type LucideIcon } from "lucide-react";
import type { ReactNode } from "react";
import { lists } from "@/api/lists";
import { useSession } from "@/api/session";
import { useHostWords } from "@/i18n/errors";
import { useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { cn } from "@/ui/classes";
import { Card, Time } from "@/ui/data";
import { texts } from "./texts";

interface Entry {
  icon: LucideIcon;
  tone: string;
  title: string;
  words?: ReactNode;
  verb: string;
  to: string;
}

const PLACES = { plugin: "/plugins", mcp_server: "/mcp-servers", channel: "/resources/channels", host: "/settings" } as const;
const MOST_FAILURES = 5;

export function Attention({ overview }: { overview: Overview }): ReactNode {
  const t = useText(texts);
  const entries = [...useWaiting(overview), ...useProblems(overview), ...useMissing()];
  return (
    <Card title={t("attention")}>
      {entries.length === 0 ? (
        <p className="flex items-center gap-2 text-muted"><CircleCheck aria-hidden />{t("calm")}</p>
      ) : (
        <ul className="-my-2 divide-y divide-line">
          {entries.map((entry, index) => (
            <li key={index} className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2">
              <entry.icon aria-hidden className={entry.tone} />
              <div className="min-w-0 flex-1 basis-48">
                <p>{entry.title}</p>
                {entry.words === undefined ? null : <p className="text-sm text-muted">{entry.words}</p>}
              </div>
              <Button asChild size="sm" kind={entry.tone === "text-wait" ? "wait" : "secondary"}><Link to={entry.to}>{entry.verb}</Link></Button>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function useWaiting({ waiting, failures }: Overview): Entry[] {
  const t = useText(texts);
  const { approvals, questions } = waiting;
  return [
    ...(approvals === null || approvals === 0 ? [] : [{ icon: CirclePause, tone: "text-wait", title: t("approvals", { count: approvals }), verb: t("decide"), to: "/approvals" }]),
    ...(questions === 0 ? [] : [{ icon: CirclePause, tone: "text-wait", title: t("questions", { count: questions }), verb: t("answer"), to: "/approvals" }]),
    ...failures.slice(0, MOST_FAILURES).filter((failure) => failure.code !== "cancelled").map((failure) => ({
      icon: CircleAlert,
      tone: "text-fail",
      title: t("failures", { count: failure.count }),
      words: <><code className="font-mono">{failure.code}</code> · {t("seen")} <Time at={failure.last_at} /></>,
      verb: t("look"),
      to: `/runs/${failure.last_run_id}`,
    })),
  ];
}

function useProblems({ problems }: Overview): Entry[] {
  const t = useText(texts);
  const words = useHostWords();
  return problems.map(({ kind, id, message, details }) => ({ icon: TriangleAlert, tone: "text-fail", title: t(`problem_${kind}`, { id: id ?? "" }), words: words.problem(message, details), verb: t(`open_${kind}`), to: PLACES[kind] }));
}

/** A workspace without a runner or without a model of its own is led to where they come from. */
function useMissing(): Entry[] {
  const t = useText(texts);
  const { may } = useSession();
  const models = useQuery({ ...lists.models, enabled: may("models.write") });
  const runners = useQuery({ queryKey: ["runners", "list"], queryFn: () => listRunners({ query: { limit: 1 } }), enabled: may("plugins.write") && may("runners.read") });
  const demo = models.data?.items.every((model) => model.model_id === "demo" || model.model_id === "default");
  return [
    ...(runners.data?.items.length === 0 ? [{ icon: TriangleAlert, tone: "text-wait", title: t("noRunner"), words: t("noRunnerWords"), verb: t("openCatalogue"), to: "/catalogue" }] : []),
    ...(demo === true ? [{ icon: Cpu, tone: cn("text-muted"), title: t("onlyDemo"), words: t("onlyDemoWords"), verb: t("addModel"), to: "/models" }] : []),
  ];
}
