import { drainHost } from "@bollard/client";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { CircleCheck, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import { useHostWords } from "@/i18n/errors";
import { useText } from "@/i18n/i18n";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Card, Facts } from "@/ui/data";
import { ErrorNote, Skeleton } from "@/ui/feedback";
import { Confirm } from "@/ui/overlay";
import { useNotes } from "@/ui/toast";
import { texts } from "./texts";

interface Readiness {
  ready: boolean;
  /** Why the host does not accept work, as words of the API. */
  reasons: { code: string; message: string; problem_details?: object }[];
  /** How well this host confines plugins, and what the full level lacks; absent without the right to read it. */
  worker_sandbox?: { level: "full" | "namespaces" | "landlock" | "none"; problem: string | null; problem_type: string | null };
}

/** A host that is not ready answers with 503 and says why, so its body is read with any status. */
async function readReadiness(): Promise<Readiness> {
  return (await (await fetch("/readyz")).json()) as Readiness;
}

export function HostCard(): ReactNode {
  const t = useText(texts);
  const notes = useNotes();
  const queries = useQueryClient();
  const query = useQuery({ queryKey: ["host", "ready"], queryFn: readReadiness, refetchInterval: 10_000 });
  const drain = useMutation({
    mutationFn: (draining: boolean) => drainHost({ body: { draining } }),
    onSuccess: (_, draining) => {
      void queries.invalidateQueries({ queryKey: ["host"] });
      notes.done(t(draining ? "draining" : "resumed"));
    },
  });
  const words = useHostWords();
  const { data } = query;
  if (data === undefined) return <Card title={t("host")}>{query.error === null ? <Skeleton rows={2} /> : <ErrorNote error={query.error} />}</Card>;
  const sandbox = data.worker_sandbox;
  const lacks = words.problem(sandbox?.problem ?? "", sandbox);
  const actions = data.reasons.some((reason) => reason.code === "draining") ? (
    <Button busy={drain.isPending} onClick={() => drain.mutate(false)}>{t("resume")}</Button>
  ) : (
    <Confirm trigger={<Button>{t("drain")}</Button>} title={t("drainTitle")} action={t("drain")} onConfirm={() => drain.mutateAsync(true)}>{t("drainText")}</Confirm>
  );
  return (
    <Card title={t("host")} actions={actions}>
      <Facts
        items={[
          [t("status"), data.ready ? <Badge icon={CircleCheck}>{t("ready")}</Badge> : <Badge tone="wait" icon={TriangleAlert}>{t("notReady")}</Badge>],
          [t("confinement"), sandbox === undefined ? undefined : <span className={sandbox.level === "none" ? "text-fail" : undefined}>{lacks === "" ? t(`level_${sandbox.level}`) : `${t(`level_${sandbox.level}`)} · ${lacks}`}</span>],
          [t("reasons"), data.reasons.length === 0 ? undefined : <ul>{data.reasons.map((reason) => <li key={reason.code}>{words.problem(reason.message, reason.problem_details)}</li>)}</ul>],
        ]}
      />
    </Card>
  );
}
