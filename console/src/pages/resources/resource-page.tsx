/** A list and a form for every saved resource that has no page of its own, driven by the OpenAPI document. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useState, type ReactNode } from "react";
import { POLLED } from "@/api/queries";
import { ask } from "@/api/request";
import { useSession } from "@/api/session";
import { PageMissing } from "@/frame/failure";
import { useLanguage, useText } from "@/i18n/i18n";
import { text } from "@/i18n/text";
import { described } from "@/parts/saved-resource/described";
import { fieldLabel } from "@/parts/saved-resource/field-names";
import type { Fields } from "@/parts/schema-form/schema";
import { Button } from "@/ui/button";
import { cn } from "@/ui/classes";
import { Table, type Column } from "@/ui/data";
import { Empty, ErrorNote, Skeleton } from "@/ui/feedback";
import { Page } from "@/ui/page";
import { Cell } from "./cell";
import { isKind, kinds, type KindName } from "./kinds";
import { ResourceSheet } from "./resource-sheet";
import { texts } from "./texts";

interface ListPage {
  items: Fields[];
  next_cursor?: string;
}

export default function ResourcePage(): ReactNode {
  const { kind } = useParams({ from: "/resources/$kind" });
  return isKind(kind) ? <Resources key={kind} kind={kind} /> : <PageMissing />;
}

/** `undefined`: no sheet; `"new"`: an empty form; else the resource that is shown. */
type Open = Fields | "new" | undefined;

function Resources({ kind }: { kind: KindName }): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const { path, create, save } = described(kind);
  const [open, setOpen] = useState<Open>();
  const query = useInfiniteQuery({
    queryKey: [kind, "list"],
    queryFn: ({ pageParam }) => ask<ListPage>("GET", path, { query: pageParam === "" ? {} : { cursor: pageParam } }),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor,
    meta: POLLED,
  });
  const rows = query.data?.pages.flatMap((page) => page.items) ?? [];
  const right = (save ?? create)?.right;
  const mayAdd = right !== undefined && (right === null || may(right));
  const add = mayAdd ? (
    <Button kind="primary" onClick={() => setOpen("new")}>
      <Plus aria-hidden />
      {t(`${kind}.new`)}
    </Button>
  ) : undefined;
  const columns = useColumns(kind, setOpen);
  const isEmpty = query.data !== undefined && rows.length === 0;
  return (
    <Page title={t(`${kind}.title`)} description={isEmpty ? undefined : t(`${kind}.about`)} actions={rows.length > 0 ? add : undefined}>
      {query.error === null ? null : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending ? <Skeleton /> : null}
      {isEmpty ? <Empty title={t(`${kind}.empty`)} action={add} command={kinds[kind].command}>{t(`${kind}.about`)}</Empty> : null}
      {rows.length > 0 ? <Table label={t(`${kind}.title`)} rows={rows} columns={columns} id={(row) => rowKey(kind, row)} /> : null}
      {query.hasNextPage ? <Button className="self-center" busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>{t("more")}</Button> : null}
      {open === undefined ? null : <ResourceSheet kind={kind} resource={open === "new" ? undefined : open} onClose={() => setOpen(undefined)} />}
    </Page>
  );
}

/** Columns whose values may need several lines. */
const LONG = new Set(["url", "types", "rights", "name", "description", "channels", "mime_type"]);

function useColumns(kind: KindName, open: (row: Fields) => void): Column<Fields>[] {
  const { language } = useLanguage();
  return kinds[kind].columns.map((name, index) => ({
    name: fieldLabel(name, language),
    className: cn(index > 1 && "max-sm:hidden", index === 0 ? "font-medium" : LONG.has(name) ? "wrap-anywhere" : "sm:whitespace-nowrap"),
    cell: (row) =>
      index === 0 ? (
        <button type="button" className="text-left text-accent-text hover:underline" onClick={() => open(row)}>{text(row[name])}</button>
      ) : (
        <Cell name={name} value={row[name]} />
      ),
  }));
}

function rowKey(kind: KindName, row: Fields): string {
  const threads = kind === "conversations" ? `${text(row.thread_id)}/${text(row.bot_id)}` : "";
  return text(row[described(kind).id] ?? row.name) + threads;
}
