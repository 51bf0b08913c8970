/** One knowledge base: its documents with progress, and a test of what agents find. */
import { getKnowledgeBase, reindexKnowledgeBase } from "@bollard/client";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";
import { useSession } from "@/api/session";
import { useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { ErrorNote } from "@/ui/feedback";
import { Confirm } from "@/ui/overlay";
import { Page } from "@/ui/page";
import { Tabs } from "@/ui/tabs";
import { useNotes } from "@/ui/toast";
import { BaseSheet } from "./base-sheet";
import { Documents } from "./documents";
import { Retrieval } from "./retrieval";
import { texts } from "./texts";

export default function BasePage(): ReactNode {
  const t = useText(texts);
  const { base: id } = useParams({ from: "/knowledge/$base" });
  const { may } = useSession();
  const notes = useNotes();
  const queries = useQueryClient();
  const [editing, setEditing] = useState(false);
  const query = useQuery({ queryKey: ["knowledge", "one", id], queryFn: () => getKnowledgeBase({ path: { kb_id: id } }) });
  const reindex = async (): Promise<void> => {
    await reindexKnowledgeBase({ path: { kb_id: id } });
    await queries.invalidateQueries({ queryKey: ["knowledge", "documents", id] });
    notes.done(t("reindexed"));
  };
  const actions = may("knowledge.write") ? (
    <>
      <Confirm trigger={<Button>{t("reindex")}</Button>} title={t("reindexTitle")} action={t("reindex")} onConfirm={reindex}>{t("reindexWords")}</Confirm>
      <Button onClick={() => setEditing(true)}>{t("settings")}</Button>
    </>
  ) : undefined;
  return (
    <Page
      title={t("title")}
      entity={id}
      description={query.data === undefined ? undefined : [query.data.name, query.data.description].filter((each) => each !== "" && each !== id).join(" · ")}
      actions={query.data === undefined ? undefined : actions}
    >
      {query.error === null ? null : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}
      {query.data === undefined ? null : (
        <Tabs
          tabs={[
            { id: "documents", name: t("documents"), content: <Documents base={id} /> },
            ...(may("knowledge.ask") ? [{ id: "test", name: t("test"), content: <Retrieval base={id} /> }] : []),
          ]}
        />
      )}
      {editing && query.data !== undefined ? <BaseSheet base={query.data} onClose={() => setEditing(false)} /> : null}
    </Page>
  );
}
