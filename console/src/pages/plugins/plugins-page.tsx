/** Plugins: what is installed, whether it runs, and an installation that asks for consent. */
import type { ListedPlugin } from "@bollard/client";
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useState, type ReactNode } from "react";
import { lists } from "@/api/lists";
import { useSession } from "@/api/session";
import { useHostWords } from "@/i18n/errors";
import { useText } from "@/i18n/i18n";
import { CatalogueLink } from "@/parts/catalogue-link";
import { ListLimit } from "@/parts/list-limit";
import { Button } from "@/ui/button";
import { Id, Table, type Column } from "@/ui/data";
import { Empty, ErrorNote, Skeleton } from "@/ui/feedback";
import { Page } from "@/ui/page";
import { InstallSheet } from "./install-sheet";
import { PluginState } from "./plugin-state";
import { texts } from "./texts";

const route = getRouteApi("/plugins");

export default function PluginsPage(): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const { install: item } = route.useSearch();
  const navigate = route.useNavigate();
  const [installing, setInstalling] = useState(false);
  const query = useQuery(lists.plugins);
  const columns = useColumns();
  const rows = query.data?.items ?? [];
  const install = (
    <>
      <CatalogueLink kind="plugin" />
      {may("plugins.write") ? <Button kind="primary" onClick={() => setInstalling(true)}><Plus aria-hidden />{t("install")}</Button> : null}
    </>
  );
  const isEmpty = query.data !== undefined && rows.length === 0;
  return (
    <Page title={t("title")} description={isEmpty ? undefined : t("about")} actions={rows.length > 0 ? install : undefined}>
      {query.error === null ? null : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending ? <Skeleton /> : null}
      <ListLimit lists={[query.data]} />
      {isEmpty ? <Empty title={t("empty")} action={install} command="bollard catalogue list --kind plugin">{t("about")}</Empty> : null}
      {rows.length > 0 ? <Table label={t("title")} rows={rows} columns={columns} id={(row) => row.plugin_id} /> : null}
      {installing ? <InstallSheet onClose={() => setInstalling(false)} /> : null}
      {item !== undefined && may("plugins.write") ? <InstallSheet key={item} item={item} onClose={() => void navigate({ search: {} })} /> : null}
    </Page>
  );
}

function useColumns(): Column<ListedPlugin>[] {
  const t = useText(texts);
  const words = useHostWords();
  return [
    {
      name: t("name"),
      cell: (row) => (
        <>
          <PluginLink plugin={row.plugin_id} />
          {row.problem === null || row.problem === "" ? null : <span className="mt-0.5 line-clamp-2 block text-sm text-fail">{words.problem(row.problem, row.problem_details)}</span>}
        </>
      ),
    },
    { name: t("state"), cell: (row) => <PluginState status={row.status} /> },
    { name: t("version"), className: "max-sm:hidden", cell: (row) => <span className="font-mono text-sm">{row.version ?? "—"}</span> },
    { name: t("origin"), className: "max-sm:hidden", cell: (row) => t(row.origin) },
    { name: t("digest"), className: "max-md:hidden", cell: (row) => (row.digest === null ? <span className="text-muted">—</span> : <Id id={row.digest} />) },
  ];
}

function PluginLink({ plugin }: { plugin: string }): ReactNode {
  const target: string = `/plugins/${plugin.split("/").map(encodeURIComponent).join("/")}`;
  return <Link to={target} className="font-medium text-accent-text hover:underline">{plugin}</Link>;
}
