/** Agents: who can be talked to, and whether they are ready. */
import type { ListedAgent } from "@bollard/client";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { CircleCheck, CircleOff, MessageSquare, Plus, TriangleAlert } from "lucide-react";
import { useState, type ReactNode } from "react";
import { lists } from "@/api/lists";
import { useSession } from "@/api/session";
import { useLanguage, useText } from "@/i18n/i18n";
import { CatalogueLink } from "@/parts/catalogue-link";
import { useAskedItem } from "@/parts/asked-item";
import { ListLimit } from "@/parts/list-limit";
import { localized } from "@/parts/runner-form/form-items";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Table, type Column } from "@/ui/data";
import { Empty, ErrorNote, Skeleton } from "@/ui/feedback";
import { Field, Input, Select } from "@/ui/field";
import { Dialog } from "@/ui/overlay";
import { Page } from "@/ui/page";
import { texts } from "./texts";

export default function AgentsPage(): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const [adding, setAdding] = useState(false);
  const query = useQuery(lists.agents);
  const rows = query.data?.items ?? [];
  const columns = useColumns();
  const add = may("agents.write") ? <Button kind="primary" onClick={() => setAdding(true)}><Plus aria-hidden />{t("add")}</Button> : undefined;
  const asked = useAskedItem(rows, (row) => row.agent_id, add !== undefined);
  const close = (): void => {
    setAdding(false);
    asked.clear();
  };
  return (
    <Page title={t("title")} description={t("about")} actions={add}>
      {query.error === null ? null : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending ? <Skeleton /> : null}
      {query.data !== undefined && rows.length === 0 ? <Empty title={t("empty")} action={<span className="flex flex-wrap justify-center gap-2"><CatalogueLink kind="plugin" />{add}</span>} command="bollard catalogue list --kind plugin">{t("about")}</Empty> : null}
      {rows.length > 0 ? <Table label={t("title")} rows={rows} columns={columns} id={(row) => row.agent_id} /> : null}
      <ListLimit lists={[query.data]} />
      {adding || asked.item === "new" ? <NewAgent onClose={close} /> : null}
    </Page>
  );
}

function useColumns(): Column<ListedAgent>[] {
  const t = useText(texts);
  const { language } = useLanguage();
  const { may } = useSession();
  return [
    { name: t("id"), className: "font-medium", cell: (row) => <Link to="/agents/$agentId" params={{ agentId: row.agent_id }} className="text-accent-text hover:underline">{row.agent_id}</Link> },
    { name: t("label"), className: "max-sm:hidden", cell: (row) => localized(row.label, language) },
    { name: t("runner"), className: "max-md:hidden", cell: (row) => <code className="font-mono text-sm text-muted">{row.runner_id}</code> },
    { name: t("state"), cell: (row) => <State agent={row} /> },
    ...(may("runs.create") ? [{ name: "", className: "text-right", cell: (row: ListedAgent) => <ChatLink agent={row.agent_id} /> }] : []),
  ];
}

function State({ agent }: { agent: ListedAgent }): ReactNode {
  const t = useText(texts);
  if (!agent.enabled) return <Badge icon={CircleOff}>{t("off")}</Badge>;
  return agent.available ? <Badge tone="quiet" icon={CircleCheck}>{t("ready")}</Badge> : <Badge tone="wait" icon={TriangleAlert}>{t("away")}</Badge>;
}

export function ChatLink({ agent, size = "sm" }: { agent: string; size?: "sm" | "md" }): ReactNode {
  const t = useText(texts);
  const target: string = `/chat?agent=${encodeURIComponent(agent)}`;
  return <Button asChild size={size}><Link to={target}><MessageSquare aria-hidden />{t("chat")}</Link></Button>;
}

function NewAgent({ onClose }: { onClose: () => void }): ReactNode {
  const t = useText(texts);
  const { language } = useLanguage();
  const navigate = useNavigate();
  const query = useQuery(lists.runners);
  const runners = query.data?.items ?? [];
  const [id, setId] = useState("");
  const [chosen, setChosen] = useState<string>();
  const runner = chosen ?? runners.find((each) => each.runner_id.includes("local-agent"))?.runner_id ?? runners[0]?.runner_id;
  return (
    <Dialog open title={t("add")} onOpenChange={onClose}>
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          void navigate({ to: "/agents/$agentId", params: { agentId: id.trim() }, search: { runner } });
        }}
      >
        {query.error === null ? null : <ErrorNote error={query.error} />}
        <Field label={t("id")} help={t("idHelp")} required>{(ids) => <Input {...ids} autoFocus required pattern="[a-z0-9][a-z0-9._\-]*" value={id} onChange={(event) => setId(event.target.value)} />}</Field>
        {query.data !== undefined && runners.length === 0 ? <div className="flex flex-wrap items-center gap-2"><p className="flex-1">{t("noRunner")}</p><CatalogueLink kind="plugin" /></div> : null}
        <Field label={t("runner")} required>
          {(ids) => (
            <Select {...ids} value={runner ?? ""} onChange={(event) => setChosen(event.target.value)}>
              {runners.map((each) => <option key={each.runner_id} value={each.runner_id}>{localized(each.label, language)} · {each.plugin}</option>)}
            </Select>
          )}
        </Field>
        <Button kind="primary" type="submit" className="self-end" disabled={id.trim() === "" || runner === undefined}>{t("create")}</Button>
      </form>
    </Dialog>
  );
}
