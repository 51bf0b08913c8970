/** Bindings: which event goes to which agent, as a readable table, with a tester. */
import type { Binding } from "@bollard/client";
import { useQuery } from "@tanstack/react-query";
import { CircleCheck, CircleOff, Plus } from "lucide-react";
import { useState, type ReactNode } from "react";
import { lists } from "@/api/lists";
import { useSession } from "@/api/session";
import { useLanguage, useText, type Language, type Translate } from "@/i18n/i18n";
import { ListLimit } from "@/parts/list-limit";
import { fieldLabel, hasChinese } from "@/parts/saved-resource/field-names";
import { useAskedItem } from "@/parts/asked-item";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Table, type Column } from "@/ui/data";
import { Empty, ErrorNote, Skeleton } from "@/ui/feedback";
import { Page } from "@/ui/page";
import { BindingSheet } from "./binding-sheet";
import { Tester } from "./tester";
import { texts } from "./texts";

type T = Translate<keyof (typeof texts)["en"]>;

export default function BindingsPage(): ReactNode {
  const t = useText(texts);
  const { language } = useLanguage();
  const { may } = useSession();
  const [open, setOpen] = useState<Binding | "new">();
  const query = useQuery(lists.bindings);
  const rows = query.data?.items ?? [];
  const add = may("bindings.write") ? <Button kind="primary" onClick={() => setOpen("new")}><Plus aria-hidden />{t("add")}</Button> : undefined;
  const isEmpty = query.data !== undefined && rows.length === 0;
  const asked = useAskedItem(rows, (row) => row.binding_id, add !== undefined);
  const shown = open ?? asked.item;
  const close = (): void => {
    setOpen(undefined);
    asked.clear();
  };
  return (
    <Page title={t("title")} description={isEmpty ? undefined : t("about")} actions={rows.length > 0 ? add : undefined}>
      {query.error === null ? null : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending ? <Skeleton /> : null}
      <ListLimit lists={[query.data]} />
      {isEmpty ? <Empty title={t("empty")} action={add} command="bollard bindings save -">{t("about")}</Empty> : null}
      {rows.length > 0 ? <Table label={t("title")} rows={rows} columns={columnsOf(t, language, setOpen)} id={(row) => row.binding_id} /> : null}
      <Tester />
      {shown === undefined ? null : <BindingSheet key={shown === "new" ? "" : shown.binding_id} binding={shown === "new" ? undefined : shown} onClose={close} />}
    </Page>
  );
}

function columnsOf(t: T, language: Language, open: (binding: Binding) => void): Column<Binding>[] {
  return [
    { name: t("id"), className: "font-medium", cell: (row) => <button type="button" className="text-left text-accent-text hover:underline" onClick={() => open(row)}>{row.binding_id}</button> },
    { name: t("events"), cell: (row) => conditions(row, t, language) },
    { name: t("agent"), cell: (row) => row.agent_id },
    { name: t("priority"), className: "text-right max-sm:hidden", cell: (row) => row.priority },
    { name: t("state"), className: "max-sm:hidden", cell: (row) => (row.enabled ? <Badge tone="quiet" icon={CircleCheck}>{t("on")}</Badge> : <Badge icon={CircleOff}>{t("off")}</Badge>) },
  ];
}

/** The conditions of a binding as a sentence: “source is github and event type is push or tag”. Fields of the data keep their names. */
function conditions(binding: Pick<Binding, "scope" | "filters">, t: T, language: Language): string {
  const places = Object.entries(binding.scope).filter((entry): entry is [string, string] => typeof entry[1] === "string").map(([field, value]) => ({ field, values: [value] }));
  const name = (field: string): string => (hasChinese(field) ? fieldLabel(field, language).toLowerCase() : field);
  const parts = [...places, ...binding.filters].map(({ field, values }) => t("is", { field: name(field), values: values.join(` ${t("or")} `) }));
  return parts.length === 0 ? t("all") : parts.join(` ${t("and")} `);
}
