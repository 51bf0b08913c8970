/** Whether the log is unchanged: the newest verification, and a button that starts another. */
import { getLogVerification, verifyLog, type LogVerification } from "@bollard/client";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { LoaderCircle, ShieldAlert, ShieldCheck, ShieldQuestion, TriangleAlert, type LucideIcon } from "lucide-react";
import type { ReactNode } from "react";
import { useSession } from "@/api/session";
import { useFormats } from "@/i18n/format";
import { useText } from "@/i18n/i18n";
import { Badge, type Tone } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Card, Time } from "@/ui/data";
import { ErrorNote, Skeleton } from "@/ui/feedback";
import { texts } from "./texts";

const KEY = ["audit", "verification"] as const;
const PROGRESS_MS = 500;
const looks: Record<LogVerification["state"], [Tone, LucideIcon]> = {
  never: ["neutral", ShieldQuestion],
  running: ["accent", LoaderCircle],
  verified: ["accent", ShieldCheck],
  broken: ["fail", ShieldAlert],
  failed: ["wait", TriangleAlert],
};

export function Verification(): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const queries = useQueryClient();
  const query = useQuery({ queryKey: KEY, queryFn: () => getLogVerification(), refetchInterval: ({ state }) => (state.data?.state === "running" ? PROGRESS_MS : false) });
  const start = useMutation({ mutationFn: () => verifyLog(), onSuccess: (begun) => queries.setQueryData(KEY, begun), onSettled: () => queries.invalidateQueries({ queryKey: KEY }) });
  const state = query.data?.state;
  const verify = may("host.operate") ? <Button size="sm" busy={start.isPending || state === "running"} onClick={() => start.mutate()}>{t("verify")}</Button> : null;
  const error = start.error ?? query.error;
  return (
    <Card title={t("status")} actions={verify}>
      {error === null ? null : <ErrorNote error={error} onRetry={() => void query.refetch()} />}
      {query.isPending ? <Skeleton rows={1} /> : null}
      <div aria-live="polite">{query.data === undefined ? null : <Status found={query.data} />}</div>
    </Card>
  );
}

export function Status({ found }: { found: LogVerification }): ReactNode {
  const t = useText(texts);
  const [tone, icon] = looks[found.state];
  const done = found.state === "verified" || found.state === "broken";
  return (
    <div className="flex flex-col gap-2">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1.5">
        <Badge tone={tone} icon={icon} className={found.state === "running" ? "[&_svg]:animate-spin" : ""}>{t(found.state)}</Badge>
        <Sentence found={found} />
        {found.ended_at === null ? null : <span className="text-muted">{t("checked")} <Time at={found.ended_at} /></span>}
      </div>
      {done && found.unsigned > 0 ? <p className="text-muted">{t("unsigned", { count: found.unsigned })}</p> : null}
      {done && !found.witnessed ? <p className="flex flex-wrap items-center gap-2 text-muted"><Badge tone="wait" icon={TriangleAlert}>{t("unwitnessed")}</Badge>{t("unwitnessedAbout")}</p> : null}
      <Problems found={found} />
    </div>
  );
}

function Sentence({ found }: { found: LogVerification }): ReactNode {
  const t = useText(texts);
  const { number } = useFormats();
  if (found.state === "running") {
    const label = t("progress", { done: number(found.done), count: found.total });
    return (
      <>
        <progress aria-label={t("running")} className="h-1.5 w-48 accent-accent" value={found.total === 0 ? undefined : found.done} max={Math.max(1, found.total)} />
        <span className="text-muted">{label}</span>
      </>
    );
  }
  if (found.state === "never") return t("neverAbout");
  if (found.state === "failed") return <span className="text-muted">{found.failure}</span>;
  return t(found.state === "verified" ? "verifiedAbout" : "brokenAbout", { count: found.state === "verified" ? found.total : found.problem_count });
}

function Problems({ found }: { found: LogVerification }): ReactNode {
  const t = useText(texts);
  if (found.problem_count === 0) return null;
  const elsewhere = found.problem_count - found.problems.length;
  return (
    <ul className="flex flex-col gap-1 rounded-md bg-fail-soft p-3">
      {found.problems.map((problem, index) => (
        <li key={index} className="flex flex-wrap gap-x-3">
          <span className="font-medium">{isKnown(problem.kind) ? t(`problem.${problem.kind}`) : problem.kind}</span>
          <span className="text-muted">{t("place", { chain: problem.chain, position: String(problem.position) })}</span>
          <span className="text-muted">{problem.detail}</span>
        </li>
      ))}
      {elsewhere > 0 ? <li className="text-muted">{t("elsewhere", { count: elsewhere })}</li> : null}
    </ul>
  );
}

type Kind = keyof (typeof texts)["en"] extends infer K ? (K extends `problem.${infer Name}` ? Name : never) : never;

/** A host of a later version may know other kinds. */
function isKnown(kind: string): kind is Kind {
  return `problem.${kind}` in texts.en;
}
