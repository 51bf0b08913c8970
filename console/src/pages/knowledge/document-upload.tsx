import { useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { useSession } from "@/api/session";
import { useText } from "@/i18n/i18n";
import { upload } from "@/parts/upload";
import { ErrorNote } from "@/ui/feedback";
import { Field, FileInput } from "@/ui/field";
import { useNotes } from "@/ui/toast";
import { texts } from "./texts";

/** The formats that the host reads, by ending. */
const TYPES: Readonly<Record<string, string>> = {
  txt: "text/plain", md: "text/markdown", markdown: "text/markdown", html: "text/html", htm: "text/html", pdf: "application/pdf", docx: "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
};

export function typeOf(name: string): string | undefined {
  return TYPES[name.split(".").at(-1)?.toLowerCase() ?? ""];
}

/** Sends files one after the other. What cannot be read is skipped and named; a failure does not stop the others. */
export function DocumentUpload({ base }: { base: string }): ReactNode {
  const t = useText(texts);
  const { workspace } = useSession();
  const notes = useNotes();
  const queries = useQueryClient();
  const [sending, setSending] = useState<{ name: string; percent: number }>();
  const [skipped, setSkipped] = useState<readonly string[]>([]);
  const [failed, setFailed] = useState<readonly { name: string; error: unknown }[]>([]);
  const send = async (files: readonly File[]): Promise<void> => {
    setFailed([]);
    setSkipped(files.filter((file) => typeOf(file.name) === undefined).map((file) => file.name));
    let count = 0;
    for (const file of files) {
      const contentType = typeOf(file.name);
      if (contentType === undefined) continue;
      const onProgress = (percent: number): void => setSending({ name: file.name, percent });
      onProgress(0);
      try {
        await upload({ url: `/api/v1/knowledge/${encodeURIComponent(base)}/documents?name=${encodeURIComponent(file.name)}`, body: file, contentType, workspace, onProgress });
        count += 1;
      } catch (error) {
        setFailed((before) => [...before, { name: file.name, error }]);
      }
      void queries.invalidateQueries({ queryKey: ["knowledge", "documents", base] });
    }
    setSending(undefined);
    if (count > 0) notes.done(t("sent", { count }));
  };
  return (
    <div className="flex flex-col gap-2 rounded-lg border border-line bg-surface p-4">
      <Field label={t("upload")} help={t("pickHelp")}>
        {(ids) => (
          <FileInput
            {...ids}
            label={t("choose")}
            multiple
            disabled={sending !== undefined}
            onChange={(event) => {
              const files = [...(event.target.files ?? [])];
              event.target.value = "";
              void send(files);
            }}
          />
        )}
      </Field>
      {sending === undefined ? null : (
        <div role="status">
          <progress max={100} value={sending.percent} className="w-full accent-accent" />
          <p className="text-sm text-muted wrap-anywhere">{t("sending", sending)}</p>
        </div>
      )}
      {skipped.length === 0 ? null : <p role="alert" className="rounded-md bg-wait-soft p-3 text-wait wrap-anywhere">{t("skipped", { names: skipped.join(", ") })} {t("skippedHint")}</p>}
      {failed.map(({ name, error }) => <div key={name} className="flex flex-col gap-1"><p className="wrap-anywhere">{t("sendFailed", { name })}</p><ErrorNote error={error} /></div>)}
    </div>
  );
}
