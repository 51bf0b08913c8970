import { useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useSession } from "@/api/session";
import { catalogue, useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { Confirm } from "@/ui/overlay";
import { useNotes } from "@/ui/toast";
import { described, type SavedKind } from "./described";
import { deleteResource } from "./saving";

const texts = catalogue({ delete: "Delete", title: "Delete {id}?", deleted: "Deleted {id}." }, { delete: "删除", title: "删除 {id}？", deleted: "已删除 {id}。" });

/** Deletes a resource after a confirmation, for people who may. `children` says what happens then. */
export function DeleteButton({ kind, id, title = id, onDeleted, children }: { kind: SavedKind; id: string; title?: string; onDeleted: () => void; children: ReactNode }): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const notes = useNotes();
  const queries = useQueryClient();
  const operation = described(kind).delete;
  if (operation === undefined || (operation.right !== null && !may(operation.right))) return null;
  return (
    <Confirm
      trigger={<Button kind="danger">{t("delete")}</Button>}
      title={t("title", { id: title })}
      action={t("delete")}
      onConfirm={async () => {
        await deleteResource(kind, id);
        await queries.invalidateQueries({ queryKey: [kind] });
        notes.done(t("deleted", { id: title }));
        onDeleted();
      }}
    >
      {children}
    </Confirm>
  );
}
