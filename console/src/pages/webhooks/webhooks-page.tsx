/** Webhook routes: who may send, what a request becomes, a test with a sample, and the last requests. */
import type { Hook } from "@bollard/client";
import { useQuery } from "@tanstack/react-query";
import { CircleCheck, CircleOff, Plus } from "lucide-react";
import { useState, type ReactNode } from "react";
import { lists } from "@/api/lists";
import { useSession } from "@/api/session";
import { useText, type Translate } from "@/i18n/i18n";
import { ListLimit } from "@/parts/list-limit";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Table, type Column } from "@/ui/data";
import { Empty, ErrorNote, Skeleton } from "@/ui/feedback";
import { Page } from "@/ui/page";
import { HookSheet } from "./hook-sheet";
import { texts } from "./texts";

type Key = keyof (typeof texts)["en"];

export default function WebhooksPage(): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const [open, setOpen] = useState<Hook | "new">();
  const query = useQuery(lists.hooks);
  const rows = query.data?.items ?? [];
  const add = may("hooks.write") ? <Button kind="primary" onClick={() => setOpen("new")}><Plus aria-hidden />{t("add")}</Button> : undefined;
  const isEmpty = query.data !== undefined && rows.length === 0;
  return (
    <Page title={t("title")} description={isEmpty ? undefined : t("about")} actions={rows.length > 0 ? add : undefined}>
      {query.error === null ? null : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending ? <Skeleton /> : null}
      <ListLimit lists={[query.data]} />
      {query.data !== undefined && rows.length === 0 ? <Empty title={t("empty")} action={add} command="bollard hooks new github --verifier github --agent demo">{t("about")}</Empty> : null}
      {rows.length > 0 ? <Table label={t("title")} rows={rows} columns={columnsOf(t, setOpen)} id={(row) => row.hook_id} /> : null}
      {open === undefined ? null : <HookSheet key={open === "new" ? "" : open.hook_id} hook={open === "new" ? undefined : open} onClose={() => setOpen(undefined)} />}
    </Page>
  );
}

function columnsOf(t: Translate<Key>, open: (hook: Hook) => void): Column<Hook>[] {
  return [
    { name: t("id"), className: "font-medium", cell: (row) => <button type="button" className="text-left text-accent-text hover:underline" onClick={() => open(row)}>{row.hook_id}</button> },
    { name: t("kind"), cell: (row) => row.verifier.kind },
    { name: t("agent"), className: "max-sm:hidden", cell: (row) => row.agent ?? <span className="text-muted">{t("byBindings")}</span> },
    { name: t("address"), className: "max-md:hidden", cell: (row) => <code className="font-mono text-sm">/hooks/{row.hook_id}</code> },
    { name: t("state"), className: "max-sm:hidden", cell: (row) => (row.enabled ? <Badge tone="quiet" icon={CircleCheck}>{t("enabled")}</Badge> : <Badge icon={CircleOff}>{t("disabled")}</Badge>) },
  ];
}
