import { deleteKnowledgeDocument, getKnowledgeDocumentContent, listKnowledgeDocuments, type KnowledgeDocument } from "@bollard/client";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { CircleAlert, CircleCheck, CircleDashed, LoaderCircle, type LucideIcon } from "lucide-react";
import type { ReactNode } from "react";
import { useSession } from "@/api/session";
import { useHostWords } from "@/i18n/errors";
import { useFormats } from "@/i18n/format";
import { useText } from "@/i18n/i18n";
import { useDownload } from "@/parts/download";
import { upload } from "@/parts/upload";
import { Badge, type Tone } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Table, Time, type Column } from "@/ui/data";
import { Empty, ErrorNote, Skeleton } from "@/ui/feedback";
import { Confirm } from "@/ui/overlay";
import { useNotes } from "@/ui/toast";
import { DocumentUpload } from "./document-upload";
import { texts } from "./texts";

const BUSY_MS = 1_000;
const QUIET_MS = 10_000;

export function Documents({ base }: { base: string }): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const columns = useColumns(base);
  const query = useInfiniteQuery({
    queryKey: ["knowledge", "documents", base],
    queryFn: ({ pageParam }) => listKnowledgeDocuments({ path: { kb_id: base }, query: { limit: 100, ...(pageParam === "" ? {} : { cursor: pageParam }) } }),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor ?? undefined,
    refetchInterval: ({ state }) => (state.data?.pages.some((page) => page.items.some(isBusy)) === true ? BUSY_MS : QUIET_MS),
  });
  const rows = query.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <div className="flex flex-col gap-3">
      {may("knowledge.write") ? <DocumentUpload base={base} /> : null}
      {query.error === null ? null : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending ? <Skeleton /> : null}
      {query.data !== undefined && rows.length === 0 ? <Empty title={t("noDocuments")} command={`bollard knowledge put ${base} handbook.pdf`}>{t("noDocumentsAbout")}</Empty> : null}
      {rows.length > 0 ? <Table label={t("documents")} rows={rows} columns={columns} id={(row) => row.document_id} /> : null}
      {query.hasNextPage ? <Button className="self-center" busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>{t("more")}</Button> : null}
    </div>
  );
}

function isBusy(document: KnowledgeDocument): boolean {
  return document.status === "waiting" || document.status === "indexing";
}

function useColumns(base: string): Column<KnowledgeDocument>[] {
  const t = useText(texts);
  const { may } = useSession();
  const { bytes } = useFormats();
  return [
    { name: t("name"), cell: (row) => <><Name base={base} document={row} /><Problem document={row} /></> },
    { name: t("state"), cell: (row) => <State document={row} /> },
    { name: t("size"), className: "text-right whitespace-nowrap max-sm:hidden", cell: (row) => bytes(row.size_bytes) },
    { name: t("changed"), className: "max-md:hidden", cell: (row) => <Time at={row.updated_at} /> },
    ...(may("knowledge.write") ? [{ name: "", className: "text-right", cell: (row: KnowledgeDocument) => <Actions base={base} document={row} /> }] : []),
  ];
}

async function contentOf(base: string, document: KnowledgeDocument): Promise<Blob> {
  const found: unknown = await getKnowledgeDocumentContent({ path: { kb_id: base, document_id: document.document_id }, parseAs: "blob" });
  return found instanceof Blob ? found : new Blob();
}

function Name({ base, document }: { base: string; document: KnowledgeDocument }): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const { download, isBusy } = useDownload(document.name, () => contentOf(base, document));
  if (!may("knowledge.ask")) return <span className="font-medium">{document.name}</span>;
  return <button type="button" aria-busy={isBusy || undefined} disabled={isBusy} title={t("download", { name: document.name })} className="text-left font-medium wrap-anywhere text-accent-text hover:underline disabled:opacity-50" onClick={download}>{document.name}</button>;
}

function Problem({ document }: { document: KnowledgeDocument }): ReactNode {
  const words = useHostWords();
  if (document.error === null || document.error === "") return null;
  const { message, hint } = words.error("document_unreadable", { ...document.problem?.details, reason: document.problem?.reason }, document.error, document.problem?.hint);
  return <span className="mt-0.5 block text-sm"><span className="text-fail">{message}</span>{hint === undefined ? null : <span className="block text-muted">{hint}</span>}</span>;
}

const looks: Record<KnowledgeDocument["status"], [Tone, LucideIcon]> = {
  waiting: ["quiet", CircleDashed], indexing: ["accent", LoaderCircle], ready: ["quiet", CircleCheck], failed: ["fail", CircleAlert],
};

function State({ document }: { document: KnowledgeDocument }): ReactNode {
  const t = useText(texts);
  const [tone, icon] = looks[document.status];
  return (
    <span className="inline-flex flex-col gap-1">
      <Badge tone={tone} icon={icon} className={tone === "accent" ? "[&_svg]:animate-spin" : ""}>{t(document.status)}</Badge>
      {document.status === "indexing" && document.chunks > 0 ? (
        <>
          <progress aria-label={document.name} max={document.chunks} value={document.done_chunks} className="h-1 w-24 accent-accent" />
          <span className="text-sm text-muted">{t("progress", { done: document.done_chunks, count: document.chunks })}</span>
        </>
      ) : null}
      {document.status === "ready" ? <span className="text-sm text-muted">{t("passages", { count: document.chunks })}</span> : null}
    </span>
  );
}

function Actions({ base, document }: { base: string; document: KnowledgeDocument }): ReactNode {
  const t = useText(texts);
  const { workspace } = useSession();
  const notes = useNotes();
  const queries = useQueryClient();
  const refresh = (): Promise<void> => queries.invalidateQueries({ queryKey: ["knowledge", "documents", base] });
  const retry = useMutation({
    mutationFn: async () => {
      const body = await contentOf(base, document);
      const query = new URLSearchParams({ name: document.name, source: document.source, metadata: JSON.stringify(document.metadata) }).toString();
      return upload({ method: "PUT", url: `/api/v1/knowledge/${encodeURIComponent(base)}/documents/${encodeURIComponent(document.document_id)}?${query}`, body, contentType: document.mime_type, workspace });
    },
    onSuccess: async () => {
      await refresh();
      notes.done(t("retried", { name: document.name }));
    },
    onError: notes.failed,
  });
  return (
    <span className="inline-flex flex-wrap justify-end gap-1">
      {document.status === "failed" ? <Button size="sm" busy={retry.isPending} onClick={() => retry.mutate()}>{t("retry")}</Button> : null}
      <Confirm trigger={<Button size="sm" kind="ghost">{t("remove")}</Button>} title={t("removeTitle", { name: document.name })} action={t("remove")} onConfirm={async () => {
        await deleteKnowledgeDocument({ path: { kb_id: base, document_id: document.document_id } });
        await refresh();
        notes.done(t("removed", { name: document.name }));
      }}>{t("removeWords")}</Confirm>
    </span>
  );
}
