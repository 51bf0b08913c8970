/** Requests that wait, and decisions. The address of one request, as channels send it, opens it beside either list. */
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { ApprovalCard } from "@/parts/approval-card";
import { useText } from "@/i18n/i18n";
import { Dialog } from "@/ui/overlay";
import { Page } from "@/ui/page";
import { Tabs } from "@/ui/tabs";
import { DecidedApprovals } from "./decided-approvals";
import { inboxTexts } from "./texts";
import { useWaiting, WaitingRequests } from "./waiting-requests";

const route = getRouteApi("/approvals");

export default function ApprovalsPage(): ReactNode {
  const t = useText(inboxTexts);
  const { approval, ...list } = route.useSearch();
  const navigate = useNavigate();
  const waiting = useWaiting();
  const tabs = [
    { id: "waiting", name: t("waiting", { count: waiting.count }), content: <WaitingRequests waiting={waiting} /> },
    { id: "history", name: t("history"), content: <DecidedApprovals /> },
  ];
  return (
    <Page title={t("approvals")} description={t("description")}>
      <Tabs tabs={tabs} value={list.view ?? "waiting"} onChange={(id) => void navigate({ to: "/approvals", search: id === "history" ? { view: "history" } : {} })} />
      <Dialog open={approval !== undefined} onOpenChange={() => void navigate({ to: "/approvals", search: list })} title={t("request")} place="side">
        {approval === undefined ? null : <ApprovalCard approvalId={approval} showRun showRequest className="border-0 px-0" />}
      </Dialog>
    </Page>
  );
}
