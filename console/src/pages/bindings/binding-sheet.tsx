import type { Binding } from "@bollard/client";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Plus, X } from "lucide-react";
import { useState, type ReactNode } from "react";
import { useSession } from "@/api/session";
import { fieldProblems } from "@/i18n/errors";
import { useLanguage, useText } from "@/i18n/i18n";
import { text } from "@/i18n/text";
import { AgentSelect } from "@/parts/agent-select";
import { DeleteButton } from "@/parts/saved-resource/delete-button";
import { described } from "@/parts/saved-resource/described";
import { fieldNames } from "@/parts/saved-resource/field-names";
import { editableFields, saveResource } from "@/parts/saved-resource/saving";
import type { Fields } from "@/parts/schema-form/schema";
import { SchemaForm } from "@/parts/schema-form/schema-form";
import { Button } from "@/ui/button";
import { ErrorNote } from "@/ui/feedback";
import { Field, Input } from "@/ui/field";
import { Dialog } from "@/ui/overlay";
import { useNotes } from "@/ui/toast";
import { texts } from "./texts";

const OWN = ["revision", "binding_id", "agent_id", "filters"];
const FIELDS = ["source", "event_type", "trigger", "data."];

export function BindingSheet({ binding, onClose }: { binding: Binding | undefined; onClose: () => void }): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const { language } = useLanguage();
  const notes = useNotes();
  const queries = useQueryClient();
  const before = binding as unknown as Fields | undefined;
  const [id, setId] = useState(binding?.binding_id ?? "");
  const [fields, setFields] = useState<Fields>(() => editableFields("bindings", before));
  const saving = useMutation({
    mutationFn: () => saveResource("bindings", id, fields, before),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["bindings"] });
      notes.done(t("saved", { id }));
      onClose();
    },
  });
  const problems = fieldProblems(saving.error, language);
  const footer = may("bindings.write") ? (
    <>
      {binding === undefined ? null : <DeleteButton kind="bindings" id={id} onDeleted={onClose}>{t("deletion")}</DeleteButton>}
      <span className="flex-1" />
      <Button kind="primary" busy={saving.isPending} disabled={id.trim() === "" || text(fields.agent_id) === ""} onClick={() => saving.mutate()}>{t("save")}</Button>
    </>
  ) : undefined;
  return (
    <Dialog open place="side" title={binding?.binding_id ?? t("add")} onOpenChange={onClose} footer={footer}>
      <div className="flex flex-col gap-4">
        {saving.error === null ? null : <ErrorNote error={saving.error} />}
        {binding === undefined ? <Field label={t("id")} help={t("idHelp")} required>{(ids) => <Input {...ids} autoFocus value={id} onChange={(event) => setId(event.target.value)} />}</Field> : null}
        <Field label={t("agent")} required error={problems.agent_id}>
          {(ids) => <AgentSelect ids={ids} value={text(fields.agent_id)} onChange={(agent) => setFields({ ...fields, agent_id: agent })} />}
        </Field>
        <Filters filters={(fields.filters as Filter[] | undefined) ?? []} onChange={(filters) => setFields({ ...fields, filters })} problem={problems.filters} />
        <SchemaForm schema={described("bindings").body ?? {}} value={fields} onChange={setFields} names={fieldNames("bindings")} hidden={OWN} problems={problems} />
      </div>
    </Dialog>
  );
}

interface Filter {
  field: string;
  values: readonly string[];
}

function Filters({ filters, onChange, problem }: { filters: readonly Filter[]; onChange: (filters: readonly Filter[]) => void; problem: string | undefined }): ReactNode {
  const t = useText(texts);
  const change = (index: number, filter: Filter): void => onChange(filters.map((each, at) => (at === index ? filter : each)));
  return (
    <fieldset className="flex flex-col gap-2 rounded-md border border-line p-3">
      <legend className="px-1 font-medium">{t("filters")}</legend>
      <p className="text-sm text-muted">{t("filtersHelp")}</p>
      {problem === undefined ? null : <p className="text-sm text-fail">{problem}</p>}
      <datalist id="filter-fields">{FIELDS.map((field) => <option key={field} value={field} />)}</datalist>
      {filters.map((filter, index) => (
        <div key={index} className="flex items-start gap-2">
          <Input aria-label={t("field")} list="filter-fields" className="w-36 shrink-0" value={filter.field} onChange={(event) => change(index, { ...filter, field: event.target.value })} />
          <Input aria-label={t("values")} placeholder={t("valuesHelp")} value={filter.values.join(",")} onChange={(event) => change(index, { ...filter, values: event.target.value.split(",").map((value) => value.trimStart()) })} />
          <Button kind="ghost" size="icon" aria-label={t("remove")} onClick={() => onChange(filters.filter((_, at) => at !== index))}><X aria-hidden /></Button>
        </div>
      ))}
      <Button size="sm" className="self-start" onClick={() => onChange([...filters, { field: "source", values: [""] }])}><Plus aria-hidden />{t("addFilter")}</Button>
    </fieldset>
  );
}
