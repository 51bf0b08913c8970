/** One agent: its form from the runner's schema, its policies, and what it may do in sentences. */
import { ApiError, listRunners, type Agent } from "@bollard/client";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useDeferredValue, useState, type ReactNode } from "react";
import { useSession } from "@/api/session";
import { fieldProblems, useHostWords } from "@/i18n/errors";
import { useLanguage, useText } from "@/i18n/i18n";
import { text } from "@/i18n/text";
import type { Config, FormItem } from "@/parts/runner-form/form-items";
import { RunnerForm } from "@/parts/runner-form/runner-form";
import { DeleteButton } from "@/parts/saved-resource/delete-button";
import { editableFields, saveResource, useSaved } from "@/parts/saved-resource/saving";
import { isFields, withField, type Fields } from "@/parts/schema-form/schema";
import { Button } from "@/ui/button";
import { cn } from "@/ui/classes";
import { Card } from "@/ui/data";
import { ErrorNote, Skeleton } from "@/ui/feedback";
import { CheckField, Field, Input } from "@/ui/field";
import { Page } from "@/ui/page";
import { useNotes } from "@/ui/toast";
import { ChatLink } from "./agents-page";
import { Permissions } from "./permissions";
import { Policies } from "./policies";
import { TestChat } from "./test-chat";
import { texts } from "./texts";
import { useTrial, type Trial } from "./trial";

export default function AgentPage(): ReactNode {
  const { agentId } = useParams({ from: "/agents/$agentId" });
  const { runner } = useSearch({ from: "/agents/$agentId" });
  const t = useText(texts);
  const query = useSaved("agents", agentId);
  const trial = useTrial(agentId);
  const isNew = query.error instanceof ApiError && query.error.status === 404 && runner !== undefined;
  if (query.data !== undefined) return <Editor key={text(query.data.revision)} id={agentId} before={query.data} trial={trial} />;
  if (isNew) return <NewAgent id={agentId} runner={runner} trial={trial} />;
  return <Page title={t("title")} entity={agentId}>{query.error === null ? <Skeleton /> : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}</Page>;
}

/** A new agent begins with the operations that its runner asks for: without them most runners cannot answer. The form shows each. */
function NewAgent({ id, runner, trial }: { id: string; runner: string; trial: Trial }): ReactNode {
  const t = useText(texts);
  const runners = useQuery({ queryKey: ["runners", "list"], queryFn: () => listRunners({ query: { limit: 100 } }) });
  if (runners.data === undefined) return <Page title={t("title")} entity={id}>{runners.error === null ? <Skeleton /> : <ErrorNote error={runners.error} onRetry={() => void runners.refetch()} />}</Page>;
  const asked = runners.data.items.find((each) => each.runner_id === runner)?.permissions ?? {};
  return <Editor id={id} before={undefined} trial={trial} start={{ runner_id: runner, label: { en_US: id }, policy: { access: { permissions: asked } } }} />;
}

/** Edits a saved agent, or a new one that starts with these fields. */
function Editor({ id, before, trial, start = {} }: { id: string; before: Fields | undefined; trial: Trial; start?: Fields }): ReactNode {
  const t = useText(texts);
  const { language } = useLanguage();
  const { may } = useSession();
  const notes = useNotes();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const [fields, setFields] = useState<Fields>(() => (before === undefined ? start : withField(editableFields("agents", before), "warnings", undefined)));
  const [saved] = useState(fields);
  const saving = useMutation({
    mutationFn: () => saveResource("agents", id, fields, before),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["agents"] });
      notes.done(t("saved", { id }));
      if (before === undefined) void navigate({ to: "/agents/$agentId", params: { agentId: id }, search: {}, replace: true });
    },
  });
  const problems = fieldProblems(saving.error, language);
  const mayWrite = may("agents.write");
  const actions = (
    <>
      {before === undefined ? null : <ChatLink agent={id} size="md" />}
      {mayWrite && before !== undefined && before.revision !== 0 ? <DeleteButton kind="agents" id={id} onDeleted={() => void navigate({ to: "/agents" })}>{t("deletion")}</DeleteButton> : null}
      {mayWrite ? <Button kind="primary" busy={saving.isPending} onClick={() => saving.mutate()}>{before?.revision === 0 ? t("override") : t("save")}</Button> : null}
    </>
  );
  return (
    <Page title={t("title")} entity={id} description={text(fields.runner_id)} actions={actions}>
      {saving.error === null ? null : <ErrorNote error={saving.error} />}
      <Warnings warnings={saving.data?.warnings ?? before?.warnings} />
      <Permissions draft={useDeferredValue(fields)} />
      <div className={cn("grid items-start gap-4", may("runs.create") && "lg:grid-cols-[minmax(0,3fr)_minmax(0,2fr)]")}>
        <fieldset disabled={!mayWrite} className="flex min-w-0 flex-col gap-4">
          <Identity fields={fields} setFields={setFields} />
          <Configuration fields={fields} setFields={setFields} problems={problems} />
          <Policies fields={fields} setFields={setFields} problems={problems} />
        </fieldset>
        {may("runs.create") ? <TestChat trial={trial} isSaved={before !== undefined} isChanged={JSON.stringify(fields) !== JSON.stringify(saved)} /> : null}
      </div>
    </Page>
  );
}

export interface PartProps {
  fields: Fields;
  setFields: (fields: Fields) => void;
  problems?: Record<string, string>;
}

function Identity({ fields, setFields }: PartProps): ReactNode {
  const t = useText(texts);
  const label = isFields(fields.label) ? fields.label : {};
  const set = (locale: string, typed: string): void => setFields({ ...fields, label: withField(label, locale, typed === "" ? undefined : typed) });
  return (
    <Card>
      <div className="flex flex-col gap-4">
        <div className="grid gap-4 sm:grid-cols-2">
          <Field label={`${t("label")} (${t("english")})`}>{(ids) => <Input {...ids} value={text(label.en_US)} onChange={(event) => set("en_US", event.target.value)} />}</Field>
          <Field label={`${t("label")} (${t("chinese")})`}>{(ids) => <Input {...ids} value={text(label.zh_Hans)} onChange={(event) => set("zh_Hans", event.target.value)} />}</Field>
        </div>
        <CheckField label={t("enabled")} help={t("enabledHelp")} checked={fields.enabled !== false} onChange={(enabled) => setFields({ ...fields, enabled })} />
      </div>
    </Card>
  );
}

function Configuration({ fields, setFields, problems = {} }: PartProps): ReactNode {
  const t = useText(texts);
  const query = useQuery({ queryKey: ["runners", "list"], queryFn: () => listRunners({ query: { limit: 100 } }) });
  const runner = query.data?.items.find((each) => each.runner_id === fields.runner_id);
  const items = (runner?.config_schema ?? []) as unknown as FormItem[];
  const config: Config = isFields(fields.config) ? fields.config : {};
  const own = Object.fromEntries(Object.entries(problems).filter(([name]) => name.startsWith("config.")).map(([name, problem]) => [name.slice("config.".length), problem]));
  return (
    <Card title={t("configuration")}>
      {query.data === undefined ? <Skeleton rows={3} /> : null}
      {query.data !== undefined && runner === undefined ? <p className="text-wait">{t("missing")}</p> : null}
      {runner !== undefined && items.length === 0 ? <p className="text-muted">{t("noForm")}</p> : null}
      <RunnerForm items={items} config={config} onChange={(next) => setFields({ ...fields, config: next })} problems={own} />
    </Card>
  );
}

type AgentWarning = NonNullable<Agent["warnings"]>[number];

function Warnings({ warnings }: { warnings: unknown }): ReactNode {
  const t = useText(texts);
  const words = useHostWords();
  if (!Array.isArray(warnings) || warnings.length === 0) return null;
  return (
    <div role="status" className="rounded-lg border border-wait-line bg-wait-soft p-3 text-wait">
      <p className="font-medium">{t("warnings")}</p>
      <ul className="list-disc pl-5">
        {(warnings as readonly AgentWarning[]).map(({ reason, message, hint, details }) => {
          const said = words.error("agent_warning", { ...details, reason }, message, hint);
          return <li key={reason}>{said.message} {said.hint}</li>;
        })}
      </ul>
    </div>
  );
}
