/** Takes permissions of an active run away, one by one. */
import { getRunGrant, revokeRunGrant, type AgentRun } from "@bollard/client";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useSession } from "@/api/session";
import { catalogue, useText } from "@/i18n/i18n";
import { usePermissionText } from "@/parts/plugin-asks/plugin-asks";
import { list, object } from "@/parts/timeline/span";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { ErrorNote } from "@/ui/feedback";
import { Confirm } from "@/ui/overlay";
import { ACTIVE } from "../stop-run";
import { Part } from "./facts";

const texts = catalogue(
  { title: "Operations", revoke: "Revoke", revoked: "Revoked", question: "Revoke {operation}?", words: "The next call of the run that needs it is refused, also in runs that it started. This cannot be undone." },
  { title: "操作权限", revoke: "撤销", revoked: "已撤销", question: "撤销 {operation}？", words: "运行下一次需要它的调用会被拒绝，它启动的运行也一样。此操作无法撤销。" },
);

export function Revocation({ run }: { run: AgentRun }): ReactNode {
  const t = useText(texts);
  const says = usePermissionText();
  const { may } = useSession();
  const queries = useQueryClient();
  const path = { run_id: run.run_id };
  const query = useQuery({ queryKey: ["permissions", run.run_id, "grant"], queryFn: () => getRunGrant({ path }), enabled: ACTIVE.has(run.status) && may("grants.read") && may("grants.revoke") });
  if (query.error !== null) return <ErrorNote error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data === undefined || !ACTIVE.has(run.status)) return null;
  const { grant, revoked } = query.data;
  const granted = Object.entries(object(object(grant.access).operations)).flatMap(([family, names]) => list(names).map((name) => `${family}.${String(name)}`));
  const gone = (operation: string): boolean => revoked.all === true || list(revoked.operations).includes(operation);
  if (granted.length === 0) return null;
  const revoke = async (operation: string): Promise<void> => {
    await revokeRunGrant({ path, body: { operations: [operation] } });
    await queries.invalidateQueries({ queryKey: ["permissions", run.run_id] });
  };
  return (
    <Part title={t("title")}>
      <ul className="divide-y divide-line">
        {granted.toSorted().map((operation) => (
          <li key={operation} className="flex items-center gap-2 py-1.5">
            <span className="min-w-0 flex-1">{says(operation)} <code className="font-mono text-sm text-muted">{operation}</code></span>
            {gone(operation) ? <Badge tone="wait">{t("revoked")}</Badge> : (
              <Confirm trigger={<Button size="sm" aria-label={`${t("revoke")} ${operation}`}>{t("revoke")}</Button>} title={t("question", { operation })} action={t("revoke")} onConfirm={() => revoke(operation)}>{t("words")}</Confirm>
            )}
          </li>
        ))}
      </ul>
    </Part>
  );
}
