import { getCatalogueItem, getMcpServer, refreshMcpServer, tryMcpServer, type McpServerWhole, type TriedMcpServer } from "@bollard/client";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";
import { POLLED } from "@/api/queries";
import { useSession } from "@/api/session";
import { fieldProblems } from "@/i18n/errors";
import { useLanguage, useText } from "@/i18n/i18n";
import { DeleteButton } from "@/parts/saved-resource/delete-button";
import { editableFields, saveResource } from "@/parts/saved-resource/saving";
import type { Fields } from "@/parts/schema-form/schema";
import { Button } from "@/ui/button";
import { Card, Code, Facts } from "@/ui/data";
import { ErrorNote, Skeleton } from "@/ui/feedback";
import { Field, Input } from "@/ui/field";
import { Markdown } from "@/ui/markdown";
import { Dialog } from "@/ui/overlay";
import { Tabs } from "@/ui/tabs";
import { useNotes } from "@/ui/toast";
import { ServerFields } from "./server-fields";
import { ServerLogin } from "./server-login";
import { ServerProblem, ServerState } from "./server-state";
import { useServerReadme } from "./server-readme";
import { ServerTools, ToolList } from "./server-tools";
import { texts } from "./texts";

export function ServerSheet({ id, onClose }: { id: string | undefined; onClose: () => void }): ReactNode {
  const query = useQuery({ queryKey: ["mcp-servers", "one", id], queryFn: () => getMcpServer({ path: { server_id: id ?? "" } }), enabled: id !== undefined, meta: POLLED });
  if (id === undefined) return <ServerForm server={undefined} onClose={onClose}>{(form) => form}</ServerForm>;
  const server = query.data;
  if (server === undefined) {
    return <Dialog open place="side" title={id} onOpenChange={onClose}>{query.error === null ? <Skeleton /> : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}</Dialog>;
  }
  return (
    <ServerForm server={server} onClose={onClose}>
      {(form) => (
        <div className="flex flex-col gap-4">
          <Status server={server} />
          <Parts server={server} form={form} />
        </div>
      )}
    </ServerForm>
  );
}

function Parts({ server, form }: { server: McpServerWhole; form: ReactNode }): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const readme = useServerReadme(server);
  return (
    <Tabs
      tabs={[
        { id: "tools", name: t("tools"), content: <ServerTools server={server} /> },
        ...(may("mcp.write") ? [{ id: "settings", name: t("settings"), content: form }] : []),
        { id: "log", name: t("log"), content: server.log.length === 0 ? <p className="text-muted">{t("noLog")}</p> : <Code text={server.log.join("\n")} label={t("log")} /> },
        ...(readme === undefined ? [] : [{ id: "readme", name: t("readme"), content: <Markdown text={readme} /> }]),
      ]}
    />
  );
}

/** The form of a server that the catalogue describes, filled in and not saved. */
export function CatalogueServer({ item, onClose }: { item: string; onClose: () => void }): ReactNode {
  const t = useText(texts);
  const [source = "", item_id = ""] = item.split("/");
  const query = useQuery({ queryKey: ["catalogue", "one", item], queryFn: () => getCatalogueItem({ path: { source, item_id } }) });
  if (query.data === undefined) {
    return <Dialog open place="side" title={t("add")} onOpenChange={onClose}>{query.error === null ? <Skeleton /> : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}</Dialog>;
  }
  return <ServerForm server={undefined} start={{ id: query.data.name, fields: query.data.server as Fields, secrets: query.data.secrets }} onClose={onClose}>{(form) => form}</ServerForm>;
}

interface Start {
  id: string;
  fields: Fields;
  secrets: readonly string[];
}

function Status({ server }: { server: McpServerWhole }): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const notes = useNotes();
  const queries = useQueryClient();
  const refreshing = useMutation({
    mutationFn: () => refreshMcpServer({ path: { server_id: server.server_id } }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["mcp-servers"] });
      notes.done(t("refreshed"));
    },
    onError: notes.failed,
  });
  return (
    <>
      <div className="flex flex-wrap items-start gap-2">
        <Facts className="flex-1" items={[[t("state"), <ServerState key="state" status={server.status} />], [t("server"), server.server_name === null ? undefined : <span className="wrap-anywhere">{server.server_name} {server.server_version}</span>]]} />
        {may("mcp.write") && server.enabled ? <Button size="sm" busy={refreshing.isPending} onClick={() => refreshing.mutate()}>{t("refresh")}</Button> : null}
      </div>
      <ServerProblem server={server.server_id} problem={server.problem} details={server.problem_details} hint={server.hint} />
      {server.auth === "oauth" && may("mcp.write") ? <ServerLogin server={server} /> : null}
    </>
  );
}

function ServerForm({ server, start, onClose, children }: { server: McpServerWhole | undefined; start?: Start; onClose: () => void; children: (form: ReactNode) => ReactNode }): ReactNode {
  const t = useText(texts);
  const { language } = useLanguage();
  const { may } = useSession();
  const notes = useNotes();
  const queries = useQueryClient();
  const [before] = useState(() => server as unknown as Fields | undefined);
  const [id, setId] = useState(server?.server_id ?? start?.id ?? "");
  const [fields, setFields] = useState<Fields>(() => (before === undefined ? start?.fields ?? { command: "" } : editableFields("mcp-servers", before)));
  const saving = useMutation({
    mutationFn: () => saveResource("mcp-servers", id, fields, before),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["mcp-servers"] });
      notes.done(t("saved", { id }));
      onClose();
    },
  });
  const trying = useMutation({ mutationFn: () => tryMcpServer({ body: fields }) });
  const error = saving.error ?? trying.error;
  const footer = may("mcp.write") ? (
    <>
      {server === undefined ? null : <DeleteButton kind="mcp-servers" id={id} onDeleted={onClose}>{t("deletion")}</DeleteButton>}
      <span className="flex-1" />
      <Button busy={trying.isPending} title={t("tryHelp")} onClick={() => trying.mutate()}>{t("try")}</Button>
      <Button kind="primary" busy={saving.isPending} disabled={id.trim() === ""} onClick={() => saving.mutate()}>{t("save")}</Button>
    </>
  ) : undefined;
  return (
    <Dialog open place="side" title={server?.server_id ?? t("add")} onOpenChange={onClose} footer={footer}>
      <div className="flex flex-col gap-4">
        {error === null ? null : <ErrorNote error={error} />}
        {start === undefined || start.secrets.length === 0 ? null : <p className="rounded-md border border-wait-line bg-wait-soft p-3 text-wait">{t("needs", { secrets: start.secrets.join(", ") })} <Link to="/resources/$kind" params={{ kind: "secrets" }} className="underline">{t("openSecrets")}</Link></p>}
        {trying.isPending ? <p role="status" className="text-muted">{t("trying")}</p> : null}
        {trying.data === undefined ? null : <Tried answer={trying.data} />}
        {children(
          <div className="flex flex-col gap-4">
            {server === undefined ? <Field label={t("id")} help={t("idHelp")} required>{(ids) => <Input {...ids} autoFocus value={id} onChange={(event) => setId(event.target.value)} />}</Field> : null}
            <ServerFields fields={fields} setFields={setFields} problems={fieldProblems(error, language)} />
          </div>,
        )}
      </div>
    </Dialog>
  );
}

function Tried({ answer }: { answer: TriedMcpServer }): ReactNode {
  const t = useText(texts);
  const title = answer.status === "connected" ? t("tried", { count: answer.tools.length }) : answer.status === "needs_login" ? t("triedLogin") : t("triedFailed");
  return (
    <Card title={title}>
      <div className="flex flex-col gap-3" role="status">
        <ServerProblem problem={answer.problem} details={answer.problem_details} hint={answer.hint} />
        <ToolList tools={answer.tools} />
        {answer.log.length === 0 ? null : <Code text={answer.log.join("\n")} label={t("log")} />}
      </div>
    </Card>
  );
}
