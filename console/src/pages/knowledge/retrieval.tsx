import { askKnowledgeBase, type KnowledgeChunk } from "@bollard/client";
import { useMutation } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { useText } from "@/i18n/i18n";
import { text } from "@/i18n/text";
import { isFields } from "@/parts/schema-form/schema";
import { Button } from "@/ui/button";
import { ErrorNote } from "@/ui/feedback";
import { Field, Input } from "@/ui/field";
import { texts } from "./texts";

/** What an agent would find, with scores and sources. */
export function Retrieval({ base }: { base: string }): ReactNode {
  const t = useText(texts);
  const [query, setQuery] = useState("");
  const asking = useMutation({ mutationFn: () => askKnowledgeBase({ path: { kb_id: base }, body: { query } }) });
  const chunks = asking.data?.chunks ?? [];
  return (
    <div className="flex flex-col gap-3">
      <form
        className="flex items-end gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          asking.mutate();
        }}
      >
        <Field label={t("query")} help={t("queryHelp")} className="flex-1">{(ids) => <Input {...ids} value={query} onChange={(event) => setQuery(event.target.value)} />}</Field>
        <Button type="submit" kind="primary" busy={asking.isPending} disabled={query.trim() === ""}>{t("ask")}</Button>
      </form>
      {asking.error === null ? null : <ErrorNote error={asking.error} />}
      {asking.data !== undefined && chunks.length === 0 ? <p role="status" className="text-muted">{t("noPassages")}</p> : null}
      <ol aria-label={t("test")} className="flex flex-col gap-2">{chunks.map((chunk) => <Passage key={chunk.chunk_id} chunk={chunk} />)}</ol>
    </div>
  );
}

function Passage({ chunk }: { chunk: KnowledgeChunk }): ReactNode {
  const t = useText(texts);
  return (
    <li className="rounded-md border border-line bg-surface p-3">
      <p className="mb-1 flex flex-wrap gap-x-4 text-sm text-muted">
        <span>{t("score")} <span className="tabular-nums">{chunk.score.toFixed(3)}</span></span>
        <span className="wrap-anywhere">{t("source")}: {sourceOf(chunk.source)}</span>
      </p>
      <p className="whitespace-pre-wrap wrap-anywhere">{chunk.text}</p>
    </li>
  );
}

function sourceOf(source: unknown): string {
  if (!isFields(source)) return text(source);
  return [...new Set([source.name ?? source.title ?? source.document_id, source.source, source.page].map(text))].filter((each) => each !== "").join(" · ");
}
