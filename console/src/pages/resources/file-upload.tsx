import { useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { useSession } from "@/api/session";
import { useText } from "@/i18n/i18n";
import { upload } from "@/parts/upload";
import { ErrorNote } from "@/ui/feedback";
import { FileInput } from "@/ui/field";
import { Dialog } from "@/ui/overlay";
import { useNotes } from "@/ui/toast";
import { texts } from "./texts";

/** Picks a file and sends it with its progress. */
export function FileUpload({ onClose }: { onClose: () => void }): ReactNode {
  const t = useText(texts);
  const { workspace } = useSession();
  const notes = useNotes();
  const queries = useQueryClient();
  const [percent, setPercent] = useState<number>();
  const [error, setError] = useState<unknown>();
  const send = async (file: File): Promise<void> => {
    setError(undefined);
    setPercent(0);
    try {
      await upload({ url: `/api/v1/files?name=${encodeURIComponent(file.name)}`, body: file, contentType: file.type || "application/octet-stream", workspace, onProgress: setPercent });
      void queries.invalidateQueries({ queryKey: ["files"] });
      notes.done(t("saved", { id: file.name }));
      onClose();
    } catch (failure) {
      setError(failure);
      setPercent(undefined);
    }
  };
  return (
    <Dialog open title={t("files.new")} onOpenChange={onClose}>
      <div className="flex flex-col gap-3">
        {error === undefined ? null : <ErrorNote error={error} />}
        <FileInput
          label={t("pick")}
          aria-label={t("pick")}
          disabled={percent !== undefined}
          onChange={(event) => {
            const file = event.target.files?.[0];
            if (file !== undefined) void send(file);
          }}
        />
        {percent === undefined ? null : (
          <div role="status">
            <progress max={100} value={percent} className="w-full accent-accent" />
            <p className="text-sm text-muted">{t("uploading", { percent })}</p>
          </div>
        )}
      </div>
    </Dialog>
  );
}
