/** Models: what agents may call, with a test button, and a form that starts from a provider. */
import { testModel, type Model } from "@bollard/client";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Plus, Star } from "lucide-react";
import { useState, type ReactNode } from "react";
import { lists } from "@/api/lists";
import { useSession } from "@/api/session";
import { useFormats } from "@/i18n/format";
import { useText } from "@/i18n/i18n";
import { CatalogueLink } from "@/parts/catalogue-link";
import { ListLimit } from "@/parts/list-limit";
import { editableFields, saveResource } from "@/parts/saved-resource/saving";
import type { Fields } from "@/parts/schema-form/schema";
import { useAskedItem } from "@/parts/asked-item";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Table, type Column } from "@/ui/data";
import { Empty, ErrorNote, Skeleton } from "@/ui/feedback";
import { Page } from "@/ui/page";
import { useNotes } from "@/ui/toast";
import { ModelSheet } from "./model-sheet";
import { checked } from "./test-answer";
import { texts } from "./texts";

export default function ModelsPage(): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const [open, setOpen] = useState<Model | "new">();
  const query = useQuery(lists.models);
  const rows = query.data?.items ?? [];
  const own = rows.filter((model) => model.origin === "saved");
  const columns = useModelColumns(setOpen);
  const add = may("models.write") ? <Button kind="primary" onClick={() => setOpen("new")}><Plus aria-hidden />{t("add")}</Button> : undefined;
  const asked = useAskedItem(rows, (row) => row.model_id, add !== undefined);
  const shown = open ?? asked.item;
  const close = (): void => {
    setOpen(undefined);
    asked.clear();
  };
  return (
    <Page title={t("title")} description={t("about")} actions={own.length > 0 ? add : undefined}>
      {query.error === null ? null : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending ? <Skeleton /> : null}
      {query.data !== undefined && own.length === 0 ? <Empty title={t("empty")} action={<span className="flex flex-wrap justify-center gap-2">{add}<CatalogueLink kind="plugin" withoutModel /></span>} command="bollard models add --preset openai">{t("emptyAbout")}</Empty> : null}
      {rows.length > 0 ? <Table label={t("title")} rows={rows} columns={columns} id={(row) => row.model_id} /> : null}
      <ListLimit lists={[query.data]} />
      {shown === undefined ? null : <ModelSheet key={shown === "new" ? "" : shown.model_id} model={shown === "new" ? undefined : shown} onClose={close} />}
    </Page>
  );
}

function useModelColumns(open: (model: Model) => void): Column<Model>[] {
  const t = useText(texts);
  const { may } = useSession();
  const edits = may("models.write");
  return [
    {
      name: t("id"),
      className: "font-medium",
      cell: (row) => (
        <span className="inline-flex flex-wrap items-center gap-2">
          {edits && row.origin === "saved" ? <button type="button" className="text-left text-accent-text hover:underline" onClick={() => open(row)}>{row.model_id}</button> : row.model_id}
          {row.is_default ? <Badge tone="accent" icon={Star}>{t("isDefault")}</Badge> : null}
        </span>
      ),
    },
    { name: t("provider"), className: "max-sm:hidden whitespace-nowrap", cell: (row) => (row.origin === "saved" ? row.provider : t("builtin")) },
    { name: t("name"), className: "max-sm:hidden", cell: (row) => row.model },
    { name: t("type"), className: "max-md:hidden whitespace-nowrap", cell: (row) => t(`type.${row.model_type}`) },
    ...(edits ? [{ name: "", className: "text-right", cell: (row: Model) => <Actions model={row} /> }] : []),
  ];
}

function Actions({ model }: { model: Model }): ReactNode {
  const t = useText(texts);
  const { duration } = useFormats();
  const notes = useNotes();
  const queries = useQueryClient();
  const test = useMutation({
    mutationFn: async () => checked(await testModel({ path: { model_id: model.model_id } })),
    onSuccess: (answer) => notes.done(`${t("works", { words: answer.words })} (${t("latency", { time: duration(answer.latency_ms) })})`),
    onError: notes.failed,
  });
  const choose = useMutation({
    mutationFn: () => saveResource("models", model.model_id, { ...editableFields("models", model as unknown as Fields), default: true }, model as unknown as Fields),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["models"] }),
    onError: notes.failed,
  });
  return (
    <span className="inline-flex flex-wrap justify-end gap-1">
      {model.origin === "saved" && !model.is_default && model.model_type === "llm" ? <Button size="sm" kind="ghost" busy={choose.isPending} onClick={() => choose.mutate()}>{t("makeDefault")}</Button> : null}
      {model.model_type === "llm" ? <Button size="sm" busy={test.isPending} onClick={() => test.mutate()}>{t("test")}</Button> : null}
    </span>
  );
}
