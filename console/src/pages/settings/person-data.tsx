import { erasePerson, exportPerson } from "@bollard/client";
import { useMutation } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { saveFile } from "@/api/download";
import { useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { Card } from "@/ui/data";
import { ErrorNote } from "@/ui/feedback";
import { Field, Input } from "@/ui/field";
import { Confirm } from "@/ui/overlay";
import { useNotes } from "@/ui/toast";
import { texts } from "./texts";

/** Exports or erases what the host knows of one person. */
export function PersonDataCard(): ReactNode {
  const t = useText(texts);
  const notes = useNotes();
  const [typed, setTyped] = useState("");
  const person = typed.trim();
  const saving = useMutation({ mutationFn: async () => saveFile(`${person}.jsonl`, await exportPerson({ query: { person }, parseAs: "blob" })) });
  const erase = async (): Promise<void> => {
    const erased = await erasePerson({ body: { person } });
    setTyped("");
    notes.done(t("erased", { person: erased.person, count: Object.values(erased.records).reduce((sum, each) => sum + each, 0) }));
  };
  return (
    <Card title={t("personTitle")}>
      <div className="flex flex-col gap-3">
        {saving.error === null ? null : <ErrorNote error={saving.error} />}
        <Field label={t("person")} help={t("personHelp")}>{(ids) => <Input {...ids} value={typed} autoComplete="off" onChange={(event) => setTyped(event.target.value)} />}</Field>
        <div className="flex flex-wrap gap-2">
          <Button disabled={person === ""} busy={saving.isPending} onClick={() => saving.mutate()}>{t("exportPerson")}</Button>
          <Confirm trigger={<Button kind="danger" disabled={person === ""}>{t("erase")}</Button>} title={t("eraseTitle", { person })} action={t("erase")} onConfirm={erase}>{t("eraseText")}</Confirm>
        </div>
      </div>
    </Card>
  );
}
