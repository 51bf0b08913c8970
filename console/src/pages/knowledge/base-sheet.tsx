import type { KnowledgeBase } from "@bollard/client";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";
import { fieldProblems } from "@/i18n/errors";
import { useLanguage, useText } from "@/i18n/i18n";
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

export function BaseSheet({ base, onClose }: { base: KnowledgeBase | undefined; onClose: () => void }): ReactNode {
  const t = useText(texts);
  const { language } = useLanguage();
  const notes = useNotes();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [before] = useState(() => base as unknown as Fields | undefined);
  const [id, setId] = useState(base?.kb_id ?? "");
  const [fields, setFields] = useState<Fields>(() => editableFields("knowledge", before));
  const saving = useMutation({
    mutationFn: () => saveResource("knowledge", id, fields, before),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["knowledge"] });
      notes.done(t("saved", { id }));
      onClose();
      const target: string = `/knowledge/${encodeURIComponent(id.trim())}`;
      if (base === undefined) void navigate({ to: target });
    },
  });
  const footer = (
    <>
      {base === undefined ? null : <DeleteButton kind="knowledge" id={id} onDeleted={() => void navigate({ to: "/knowledge" })}>{t("deletion")}</DeleteButton>}
      <span className="flex-1" />
      <Button kind="primary" busy={saving.isPending} disabled={id.trim() === ""} onClick={() => saving.mutate()}>{t("save")}</Button>
    </>
  );
  return (
    <Dialog open place="side" title={base?.kb_id ?? t("add")} onOpenChange={onClose} footer={footer}>
      <div className="flex flex-col gap-4">
        {saving.error === null ? null : <ErrorNote error={saving.error} />}
        {base === undefined ? <Field label={t("id")} help={t("idHelp")} required>{(ids) => <Input {...ids} autoFocus value={id} onChange={(event) => setId(event.target.value)} />}</Field> : null}
        <SchemaForm schema={described("knowledge").body ?? {}} value={fields} onChange={setFields} names={fieldNames("knowledge")} hidden={["revision", "kb_id"]} problems={fieldProblems(saving.error, language)} />
      </div>
    </Dialog>
  );
}
