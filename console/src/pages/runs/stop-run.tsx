import { cancelRun } from "@bollard/client";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { ErrorNote } from "@/ui/feedback";
import { Dialog } from "@/ui/overlay";
import { useNotes } from "@/ui/toast";
import { runTexts } from "./run-texts";

export const ACTIVE = new Set(["queued", "dispatching", "running", "waiting"]);

/** Asks before it stops a run. */
export function StopRun({ runId, onClose }: { runId: string | undefined; onClose: () => void }): ReactNode {
  const t = useText(runTexts);
  const notes = useNotes();
  const queries = useQueryClient();
  const stop = useMutation({
    mutationFn: (id: string) => cancelRun({ path: { run_id: id } }),
    onSuccess: () => {
      notes.done(t("stopped"));
      onClose();
      void queries.invalidateQueries({ queryKey: ["runs"] });
    },
  });
  return (
    <Dialog
      open={runId !== undefined}
      onOpenChange={(open) => {
        if (!open) onClose();
        stop.reset();
      }}
      title={t("stopTitle")}
      footer={
        <>
          <Button onClick={onClose}>{t("keep")}</Button>
          <Button kind="danger" busy={stop.isPending} onClick={() => runId === undefined ? undefined : stop.mutate(runId)}>{t("stop")}</Button>
        </>
      }
    >
      <p>{t("stopWords")}</p>
      {stop.error === null ? null : <ErrorNote error={stop.error} className="mt-3" />}
    </Dialog>
  );
}
