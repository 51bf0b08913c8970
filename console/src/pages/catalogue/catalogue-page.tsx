/** What can be installed: search, README, and the way to the form that asks for consent. */
import { ApiError, listCatalogue, listCatalogueSources, type CatalogueItem, type CatalogueSource } from "@bollard/client";
import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { Search } from "lucide-react";
import { useEffect, useState, type ReactNode } from "react";
import { useLanguage, useText } from "@/i18n/i18n";
import { localized } from "@/parts/runner-form/form-items";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Empty, ErrorNote, Skeleton } from "@/ui/feedback";
import { Input, Select } from "@/ui/field";
import { Page } from "@/ui/page";
import { InstalledBadge } from "./installed-badge";
import { Tag } from "./tag";
import { ItemSheet } from "./item-sheet";
import { KINDS, type CatalogueSearch } from "./search";
import { texts } from "./texts";

const PAUSE_MS = 200;
const route = getRouteApi("/catalogue");

export default function CataloguePage(): ReactNode {
  const t = useText(texts);
  const { search, kind, item } = route.useSearch();
  const navigate = route.useNavigate();
  const go = (next: CatalogueSearch): void => void navigate({ search: next, replace: next.item === undefined && item === undefined });
  const query = useInfiniteQuery({
    queryKey: ["catalogue", "list", search, kind],
    queryFn: ({ pageParam }) => listCatalogue({ query: { limit: 100, ...(search === undefined ? {} : { search }), ...(kind === undefined ? {} : { kind }), ...(pageParam === "" ? {} : { cursor: pageParam }) } }),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor,
    placeholderData: keepPreviousData,
  });
  const sources = useQuery({ queryKey: ["catalogue", "sources"], queryFn: () => listCatalogueSources({ query: { limit: 100 } }) });
  const rows = query.data?.pages.flatMap((page) => page.items) ?? [];
  const filters = { ...(search === undefined ? {} : { search }), ...(kind === undefined ? {} : { kind }) };
  return (
    <Page title={t("title")} description={t("about")}>
      <div role="search" className="flex flex-wrap gap-2">
        <SearchField key={search === undefined ? "empty" : "filled"} value={search ?? ""} onChange={(words) => go({ ...(kind === undefined ? {} : { kind }), ...(words === "" ? {} : { search: words }) })} />
        <Select aria-label={t("kind")} className="w-40" value={kind ?? ""} onChange={(event) => go({ ...(search === undefined ? {} : { search }), ...chosenKind(event.target.value) })}>
          <option value="">{t("all")}</option>
          {KINDS.map((each) => <option key={each} value={each}>{t(each)}</option>)}
        </Select>
      </div>
      {sources.data?.items.map((source) => (source.problem === null ? null : <SourceProblem key={source.source} source={source} onRetry={() => void Promise.all([sources.refetch(), query.refetch()])} />))}
      {query.error === null ? null : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending ? <Skeleton /> : null}
      {query.data !== undefined && rows.length === 0 ? <Empty title={t("nothing")} action={<Button onClick={() => go({})}>{t("clear")}</Button>} command="bollard catalogue list">{t("nothingWords")}</Empty> : null}
      <ul className="grid gap-3 sm:grid-cols-2 lg:grid-cols-3">{rows.map((row) => <Card key={row.ref} item={row} onOpen={() => go({ ...filters, item: row.ref })} />)}</ul>
      {query.hasNextPage ? <Button className="self-center" busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>{t("more")}</Button> : null}
      {item === undefined ? null : <ItemSheet key={item} itemRef={item} onClose={() => go(filters)} />}
    </Page>
  );
}

function chosenKind(value: string): Pick<CatalogueSearch, "kind"> {
  const kind = KINDS.find((each) => each === value);
  return kind === undefined ? {} : { kind };
}

/** Typed words reach the address after a pause: a request for each key, and each step of an input method, would be too many. */
function SearchField({ value, onChange }: { value: string; onChange: (words: string) => void }): ReactNode {
  const t = useText(texts);
  const [typed, setTyped] = useState(value);
  useEffect(() => {
    if (typed.trim() === value) return;
    const timer = setTimeout(() => onChange(typed.trim()), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [typed, value, onChange]);
  return (
    <div className="relative min-w-48 flex-1">
      <Search aria-hidden className="absolute top-2 left-2.5 text-muted" />
      <Input type="search" aria-label={t("search")} placeholder={t("search")} className="pl-8" value={typed} onChange={(event) => setTyped(event.target.value)} />
    </div>
  );
}

function Card({ item, onOpen }: { item: CatalogueItem; onOpen: () => void }): ReactNode {
  const t = useText(texts);
  const { language } = useLanguage();
  return (
    <li className="relative flex min-w-0 flex-col gap-1.5 rounded-lg border border-line bg-surface p-4 hover:border-line-strong/70">
      <div className="flex flex-wrap items-center gap-2">
        <h2 className="min-w-0 text-base wrap-anywhere">
          <button type="button" className="text-left after:absolute after:inset-0 after:rounded-lg" onClick={onOpen}>{localized(item.label, language)}</button>
        </h2>
        <InstalledBadge item={item} />
      </div>
      <p className="line-clamp-3 flex-1 wrap-anywhere text-muted">{localized(item.description, language)}</p>
      <div className="flex flex-wrap gap-1.5">
        <Badge tone="accent">{t(item.kind)}</Badge>
        {item.tags.slice(0, 4).map((tag) => <Tag key={tag} name={tag} />)}
      </div>
    </li>
  );
}

function SourceProblem({ source, onRetry }: { source: CatalogueSource; onRetry: () => void }): ReactNode {
  const t = useText(texts);
  const details = source.problem_details as Record<string, unknown>;
  const error = new ApiError({ code: typeof details.code === "string" ? details.code : "catalogue_unavailable", message: source.problem ?? "", hint: source.hint, details }, 502);
  return (
    <div className="flex flex-col gap-1">
      <ErrorNote error={error} onRetry={onRetry} />
      {source.items === 0 ? null : <p className="text-sm wrap-anywhere text-muted">{t("problem", { url: source.url })}</p>}
    </div>
  );
}
