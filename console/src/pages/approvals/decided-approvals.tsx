/** What was decided, by whom and when; each row opens the exact request. */
import { listApprovals, type ApprovalSummary } from "@bollard/client";
import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { Ban, CircleCheck, TimerOff } from "lucide-react";
import type { ReactNode } from "react";
import { RunLink } from "@/parts/run-link";
import { useText } from "@/i18n/i18n";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Table, Time, type Column } from "@/ui/data";
import { Empty, ErrorNote, Skeleton } from "@/ui/feedback";
import { Select } from "@/ui/field";
import { decidedStates, type ApprovalSearch, type DecidedState } from "./routes";
import { inboxTexts } from "./texts";

const route = getRouteApi("/approvals");
const PAGE = 50;
const ICONS = { granted: CircleCheck, used: CircleCheck, denied: Ban, expired: TimerOff } as const;

export function DecidedApprovals(): ReactNode {
  const t = useText(inboxTexts);
  const { state } = route.useSearch();
  const navigate = useNavigate();
  const go = (search: ApprovalSearch): void => void navigate({ to: "/approvals", search: { view: "history", ...search } });
  const chosen = state === undefined ? {} : { state };
  return (
    <div className="flex flex-col gap-3">
      <Select
        aria-label={t("filter")} className="w-auto self-start" value={state ?? ""}
        onChange={(event) => {
          const next = decidedStates.find((each) => each === event.target.value);
          go(next === undefined ? {} : { state: next });
        }}
      >
        <option value="">{t("all")}</option>
        {decidedStates.map((each) => <option key={each} value={each}>{t(each)}</option>)}
      </Select>
      <Decisions state={state} onShow={(id) => go({ ...chosen, approval: id })} />
    </div>
  );
}

function Decisions({ state, onShow }: { state: DecidedState | undefined; onShow: (id: string) => void }): ReactNode {
  const t = useText(inboxTexts);
  const query = useInfiniteQuery({
    queryKey: ["approvals", "decided", state ?? ""],
    queryFn: ({ pageParam }) => listApprovals({ query: { limit: PAGE, ...(state === undefined ? {} : { status: state }), ...(pageParam === "" ? {} : { cursor: pageParam }) } }),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor,
  });
  if (query.error !== null && query.data === undefined) return <ErrorNote error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data === undefined) return <Skeleton rows={5} />;
  const rows = query.data.pages.flatMap((page) => page.items).filter((each) => each.status !== "requested");
  if (rows.length === 0 && !query.hasNextPage) return <Empty title={t("noHistory")} command="bollard approvals">{t("noHistoryHint")}</Empty>;
  const columns: readonly Column<ApprovalSummary>[] = [
    { name: t("tool"), cell: (row) => <button type="button" className="text-left font-mono text-accent-text underline-offset-2 hover:underline" onClick={() => onShow(row.approval_id)}>{row.name}</button> },
    { name: t("decision"), cell: (row) => <Decision status={row.status} /> },
    { name: t("agent"), className: "max-sm:hidden", cell: (row) => row.agent_id },
    { name: t("by"), className: "max-sm:hidden", cell: (row) => row.by ?? "—" },
    { name: t("when"), cell: (row) => <Time at={row.decided_at ?? row.expires_at} /> },
    { name: t("run"), className: "max-sm:hidden", cell: (row) => <RunLink run={row.run_id} className="text-accent-text underline-offset-2 hover:underline">{t("openRun")}</RunLink> },
  ];
  return (
    <>
      <Table label={t("history")} rows={rows} columns={columns} id={(row) => row.approval_id} />
      {query.hasNextPage ? <Button className="self-start" busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>{t("older")}</Button> : null}
    </>
  );
}

function Decision({ status }: { status: ApprovalSummary["status"] }): ReactNode {
  const t = useText(inboxTexts);
  if (status === "requested") return null;
  return <Badge tone={status === "denied" ? "fail" : "quiet"} icon={ICONS[status]}>{t(status)}</Badge>;
}
