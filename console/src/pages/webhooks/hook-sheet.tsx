import type { Hook } from "@bollard/client";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { useSession } from "@/api/session";
import { fieldProblems } from "@/i18n/errors";
import { useLanguage, useText } from "@/i18n/i18n";
import { text } from "@/i18n/text";
import { AgentSelect } from "@/parts/agent-select";
import { DeleteButton } from "@/parts/saved-resource/delete-button";
import { described } from "@/parts/saved-resource/described";
import { fieldNames } from "@/parts/saved-resource/field-names";
import { editableFields, KEPT, saveResource } from "@/parts/saved-resource/saving";
import { isFields, withField, type Fields } from "@/parts/schema-form/schema";
import { SchemaForm } from "@/parts/schema-form/schema-form";
import { Button } from "@/ui/button";
import { Code } from "@/ui/data";
import { Command, ErrorNote } from "@/ui/feedback";
import { Field, Input, Select } from "@/ui/field";
import { Dialog } from "@/ui/overlay";
import { Tabs } from "@/ui/tabs";
import { useNotes } from "@/ui/toast";
import { Deliveries, Tester } from "./hook-activity";
import { texts } from "./texts";

const OWN = ["revision", "hook_id", "verifier.kind", "secret", "agent", "event.text", "event.conversation"];
const SENDERS = described("hooks").body?.properties?.verifier?.properties?.kind?.enum ?? [];

export function HookSheet({ hook, onClose }: { hook: Hook | undefined; onClose: () => void }): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const notes = useNotes();
  const queries = useQueryClient();
  const before = hook as unknown as Fields | undefined;
  const [id, setId] = useState(hook?.hook_id ?? "");
  const [fields, setFields] = useState<Fields>(() => (before === undefined ? { verifier: { kind: "github" } } : editableFields("hooks", before)));
  const [secret, setSecret] = useState<string>();
  const saving = useMutation({
    mutationFn: () => saveResource("hooks", id, fields, before),
    onSuccess: (answer) => {
      void queries.invalidateQueries({ queryKey: ["hooks"] });
      notes.done(t("saved", { id }));
      if (typeof answer.secret === "string" && answer.secret !== KEPT) setSecret(answer.secret);
      else onClose();
    },
  });
  const footer =
    secret !== undefined ? (
      <Button kind="primary" onClick={onClose}>{t("done")}</Button>
    ) : may("hooks.write") ? (
      <>
        {hook === undefined ? null : <DeleteButton kind="hooks" id={id} onDeleted={onClose}>{t("deletion")}</DeleteButton>}
        <span className="flex-1" />
        <Button kind="primary" busy={saving.isPending} disabled={id.trim() === ""} onClick={() => saving.mutate()}>{t("save")}</Button>
      </>
    ) : undefined;
  const address = (
    <div className="flex flex-col gap-1">
      <span className="text-sm text-muted">{t("copyAddress")}</span>
      <Command text={`${location.origin}/hooks/${id || "…"}`} />
    </div>
  );
  const form = (
    <div className="flex flex-col gap-4">
      {saving.error === null ? null : <ErrorNote error={saving.error} />}
      {hook === undefined ? <Field label={t("id")} help={t("idHelp")} required>{(ids) => <Input {...ids} autoFocus value={id} onChange={(event) => setId(event.target.value)} />}</Field> : null}
      {address}
      <HookFields fields={fields} setFields={setFields} error={saving.error} />
    </div>
  );
  return (
    <Dialog open place="side" title={hook?.hook_id ?? t("add")} onOpenChange={onClose} footer={footer}>
      {secret !== undefined ? (
        <div className="flex flex-col gap-3">
          <p className="font-medium text-wait">{t("once")}</p>
          <Code text={secret} />
          {address}
        </div>
      ) : hook === undefined ? (
        form
      ) : (
        <Tabs
          tabs={[
            { id: "settings", name: t("settings"), content: form },
            { id: "test", name: t("test"), content: <Tester hook={hook.hook_id} /> },
            { id: "deliveries", name: t("deliveries"), content: <Deliveries hook={hook.hook_id} /> },
          ]}
        />
      )}
    </Dialog>
  );
}

function HookFields({ fields, setFields, error }: { fields: Fields; setFields: (fields: Fields) => void; error: unknown }): ReactNode {
  const t = useText(texts);
  const { language } = useLanguage();
  const problems = fieldProblems(error, language);
  const part = (name: string): Fields => {
    const value = fields[name];
    return isFields(value) ? value : {};
  };
  const set = (name: string, value: string): void => setFields(withField(fields, name, value === "" ? undefined : value));
  const setEvent = (name: string, value: string): void => setFields({ ...fields, event: withField(part("event"), name, value === "" ? undefined : value) });
  return (
    <>
      <Field label={t("kind")} error={problems["verifier.kind"]}>
        {(ids) => (
          <Select {...ids} value={text(part("verifier").kind)} onChange={(event) => setFields({ ...fields, verifier: { kind: event.target.value } })}>
            {SENDERS.map((kind) => <option key={kind} value={kind}>{kind}</option>)}
          </Select>
        )}
      </Field>
      <Field label={t("secret")} help={t("secretHelp")} error={problems.secret}>{(ids) => <Input {...ids} type="password" autoComplete="off" value={text(fields.secret)} onChange={(event) => set("secret", event.target.value)} />}</Field>
      <Field label={t("agent")} error={problems.agent}>
        {(ids) => <AgentSelect ids={ids} value={text(fields.agent)} none={t("byBindings")} onChange={(agent) => set("agent", agent)} />}
      </Field>
      <Field label={t("text")} help={t("textHelp", { example: "{body.issue.title}" })} error={problems["event.text"]}>{(ids) => <Input {...ids} className="font-mono" value={text(part("event").text)} onChange={(event) => setEvent("text", event.target.value)} />}</Field>
      <Field label={t("conversation")} error={problems["event.conversation"]}>{(ids) => <Input {...ids} className="font-mono" placeholder="issue-{body.issue.number}" value={text(part("event").conversation)} onChange={(event) => setEvent("conversation", event.target.value)} />}</Field>
      <details>
        <summary className="text-muted">{t("more")}</summary>
        <div className="mt-3">
          <SchemaForm schema={described("hooks").body ?? {}} value={fields} onChange={setFields} names={fieldNames("hooks")} hidden={OWN} problems={problems} />
        </div>
      </details>
    </>
  );
}
