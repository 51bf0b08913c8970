/** Knowledge bases. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useState, type ReactNode } from "react";
import { lists } from "@/api/lists";
import { useSession } from "@/api/session";
import { useText } from "@/i18n/i18n";
import { ListLimit } from "@/parts/list-limit";
import { Button } from "@/ui/button";
import { Table } from "@/ui/data";
import { Empty, ErrorNote, Skeleton } from "@/ui/feedback";
import { Page } from "@/ui/page";
import { BaseSheet } from "./base-sheet";
import { texts } from "./texts";

export default function KnowledgePage(): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const [adding, setAdding] = useState(false);
  const query = useQuery(lists.knowledge);
  const rows = query.data?.items ?? [];
  const add = may("knowledge.write") ? <Button kind="primary" onClick={() => setAdding(true)}><Plus aria-hidden />{t("add")}</Button> : undefined;
  const isEmpty = query.data !== undefined && rows.length === 0;
  return (
    <Page title={t("title")} description={isEmpty ? undefined : t("about")} actions={rows.length > 0 ? add : undefined}>
      {query.error === null ? null : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending ? <Skeleton /> : null}
      <ListLimit lists={[query.data]} />
      {query.data !== undefined && rows.length === 0 ? <Empty title={t("empty")} action={add} command="bollard knowledge add handbook">{t("about")}</Empty> : null}
      {rows.length > 0 ? (
        <Table
          label={t("title")}
          rows={rows}
          id={(row) => row.kb_id}
          columns={[
            { name: t("id"), cell: (row) => <BaseLink id={row.kb_id} /> },
            { name: t("name"), className: "max-sm:hidden", cell: (row) => row.name },
            { name: t("description"), cell: (row) => <span className="line-clamp-2 text-muted">{row.description}</span> },
            { name: t("search"), className: "max-sm:hidden whitespace-nowrap", cell: (row) => t(row.embedding) },
          ]}
        />
      ) : null}
      {adding ? <BaseSheet base={undefined} onClose={() => setAdding(false)} /> : null}
    </Page>
  );
}

function BaseLink({ id }: { id: string }): ReactNode {
  const target: string = `/knowledge/${encodeURIComponent(id)}`;
  return <Link to={target} className="font-medium text-accent-text hover:underline">{id}</Link>;
}
