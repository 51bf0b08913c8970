/** MCP servers: whether they are connected, their tools with consent, and a try before they are saved. */
import type { McpServer } from "@bollard/client";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useState, type ReactNode } from "react";
import { lists } from "@/api/lists";
import { useSession } from "@/api/session";
import { useHostWords } from "@/i18n/errors";
import { useFormats } from "@/i18n/format";
import { useText } from "@/i18n/i18n";
import { CatalogueLink } from "@/parts/catalogue-link";
import { ListLimit } from "@/parts/list-limit";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Table, type Column } from "@/ui/data";
import { Empty, ErrorNote, Skeleton } from "@/ui/feedback";
import { Page } from "@/ui/page";
import { CatalogueServer, ServerSheet } from "./server-sheet";
import { ServerState } from "./server-state";
import { texts } from "./texts";

const route = getRouteApi("/mcp-servers");

export default function McpServersPage(): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const [open, setOpen] = useState<McpServer | "new">();
  const query = useQuery(lists.mcpServers);
  const rows = query.data?.items ?? [];
  const columns = useColumns(setOpen);
  const { add: item } = route.useSearch();
  const navigate = route.useNavigate();
  const add = (
    <>
      <CatalogueLink kind="mcp_server" />
      {may("mcp.write") ? <Button kind="primary" onClick={() => setOpen("new")}><Plus aria-hidden />{t("add")}</Button> : null}
    </>
  );
  const isEmpty = query.data !== undefined && rows.length === 0;
  return (
    <Page title={t("title")} description={isEmpty ? undefined : t("about")} actions={rows.length > 0 ? add : undefined}>
      {query.error === null ? null : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending ? <Skeleton /> : null}
      <ListLimit lists={[query.data]} />
      {isEmpty ? <Empty title={t("empty")} action={add} command="bollard mcp add tickets -- python3 tickets.py serve">{t("about")}</Empty> : null}
      {rows.length > 0 ? <Table label={t("title")} rows={rows} columns={columns} id={(row) => row.server_id} /> : null}
      {item !== undefined && may("mcp.write") ? <CatalogueServer key={item} item={item} onClose={() => void navigate({ search: {} })} /> : null}
      {open === undefined ? null : <ServerSheet key={open === "new" ? "" : open.server_id} id={open === "new" ? undefined : open.server_id} onClose={() => setOpen(undefined)} />}
    </Page>
  );
}

function useColumns(open: (server: McpServer) => void): Column<McpServer>[] {
  const t = useText(texts);
  const { number } = useFormats();
  const words = useHostWords();
  return [
    {
      name: t("id"),
      cell: (row) => (
        <>
          <button type="button" className="text-left font-medium text-accent-text hover:underline" onClick={() => open(row)}>{row.server_id}</button>
          {row.problem === "" ? null : <span className="mt-0.5 line-clamp-2 block text-sm text-fail">{words.problem(row.problem, row.problem_details)}</span>}
        </>
      ),
    },
    { name: t("state"), cell: (row) => <ServerState status={row.status} /> },
    { name: t("offered"), className: "text-right max-sm:hidden", cell: (row) => number(row.offered) },
    { name: t("waitingTools"), className: "max-sm:hidden", cell: (row) => (row.waiting === 0 ? <span className="text-muted">—</span> : <Badge tone="wait">{number(row.waiting)}</Badge>) },
    { name: t("kind"), className: "max-md:hidden max-w-80", cell: (row) => <code title={commandOf(row)} className="line-clamp-1 font-mono text-sm wrap-anywhere text-muted">{commandOf(row)}</code> },
  ];
}

function commandOf(row: McpServer): string {
  return row.url ?? [row.command, ...(row.args ?? [])].join(" ");
}
