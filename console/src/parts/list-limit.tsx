import type { ReactNode } from "react";
import { LISTED_ITEMS, type Listing } from "@/api/lists";
import { useFormats } from "@/i18n/format";
import { catalogue, useText } from "@/i18n/i18n";

const texts = catalogue(
  { limit: "Only the first {count} entries are listed here. The API lists the rest." },
  { limit: "这里只列出前 {count} 项，其余可通过 API 查看。" },
);

/** A notice if one of these lists is truncated. */
export function ListLimit({ lists }: { lists: readonly (Listing<unknown> | undefined)[] }): ReactNode {
  const t = useText(texts);
  const { number } = useFormats();
  if (lists.every((list) => list === undefined || list.isWhole)) return null;
  return <p role="note" className="text-sm text-wait">{t("limit", { count: number(LISTED_ITEMS) })}</p>;
}
