/** The conversations of the workspace, and the search in their messages. */
import { listConversations, searchConversations, type Conversation, type FoundMessage } from "@bollard/client";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Pin, PinOff, Plus, Search } from "lucide-react";
import { useDeferredValue, useEffect, useId, useState, type ReactNode } from "react";
import { useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { cn } from "@/ui/classes";
import { Time } from "@/ui/data";
import { ErrorNote, Skeleton } from "@/ui/feedback";
import { Input } from "@/ui/field";
import { useSession } from "@/api/session";
import { useVisible } from "@/api/live";
import type { Place } from "./history";
import { isUnread, keyOf, placeOf, useMarks, withoutPin, withPin, withRead } from "./marks";
import { chatTexts } from "./texts";

const PAGE = 50;

interface Row {
  key: string;
  place: Place;
  title: string;
  at: number;
  snippet: boolean;
  /** Absent for a message that was found. */
  isPinned?: boolean;
  isUnread?: boolean;
}

export function ConversationList({ current, agent, onOpen }: { current: Place; agent: string | undefined; onOpen?: () => void }): ReactNode {
  const t = useText(chatTexts);
  const { may } = useSession();
  const [words, setWords] = useState("");
  const asked = useDeferredValue(words.trim());
  return (
    <div className="flex h-full min-h-0 flex-col">
      <div className="flex flex-col gap-2 p-3">
        {may("runs.create") ? (
          <Button asChild className="justify-start"><Link to="/chat" search={agent === undefined ? {} : { agent }} onClick={onOpen}><Plus aria-hidden />{t("newConversation")}</Link></Button>
        ) : null}
        <div className="relative">
          <Search aria-hidden className="pointer-events-none absolute top-2 left-2.5 text-muted" />
          <Input type="search" aria-label={t("search")} placeholder={t("search")} value={words} onChange={(event) => setWords(event.target.value)} className="pl-8" />
        </div>
      </div>
      <nav aria-label={t("conversations")} className="min-h-0 flex-1 overflow-y-auto px-3 pb-3 scroll-thin">
        {asked === "" ? <All current={current} onOpen={onOpen} /> : <Found words={asked} current={current} onOpen={onOpen} />}
      </nav>
    </div>
  );
}

function All({ current, onOpen }: { current: Place; onOpen: (() => void) | undefined }): ReactNode {
  const t = useText(chatTexts);
  const query = useInfiniteQuery({
    queryKey: ["conversations", "list"],
    queryFn: ({ pageParam }) => listConversations({ query: { limit: PAGE, ...(pageParam === "" ? {} : { cursor: pageParam }) } }),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor,
  });
  const rows = useMarked(query.data?.pages.flatMap((page) => page.items.map((item) => rowOf(item, t("untitled", { id: item.conversation_id })))), current);
  return <Rows rows={rows} current={current} query={query} onOpen={onOpen} empty={<p className="px-2 py-4 text-muted"><span className="block text-text">{t("none")}</span>{t("noneHint")}</p>} />;
}

/** The rows with their marks, pinned ones first. The open conversation is read while a person looks at the page. */
function useMarked(rows: readonly Row[] | undefined, current: Place): readonly Row[] | undefined {
  const { marks, change } = useMarks();
  const visible = useVisible();
  const newest = rows?.find((row) => isSame(row.place, current))?.at;
  useEffect(() => {
    if (visible && newest !== undefined) change((before) => withRead(before, current, newest));
  }, [visible, newest, current, change]);
  if (rows === undefined) return undefined;
  const marked = (row: Row, isPinned: boolean): Row => ({ ...row, isPinned, isUnread: !isSame(row.place, current) && isUnread(marks, row.place, row.at) });
  const listed = new Map(rows.map((row) => [row.key, row]));
  const pinned = marks.pins.map((pin) => marked(listed.get(keyOf(pin.place)) ?? { key: keyOf(pin.place), ...pin, snippet: false }, true));
  const first = new Set(pinned.map((row) => row.key));
  return [...pinned, ...rows.filter((row) => !first.has(row.key)).map((row) => marked(row, false))];
}

function Found({ words, current, onOpen }: { words: string; current: Place; onOpen: (() => void) | undefined }): ReactNode {
  const t = useText(chatTexts);
  const query = useInfiniteQuery({
    queryKey: ["conversations", "search", words],
    queryFn: ({ pageParam }) => searchConversations({ query: { q: words, limit: PAGE, ...(pageParam === "" ? {} : { cursor: pageParam }) } }),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor,
    placeholderData: (before) => before,
  });
  const rows = query.data?.pages.flatMap((page) => page.items.map(rowOfFound));
  return <Rows rows={rows} current={current} query={query} onOpen={onOpen} empty={<p className="px-2 py-4 text-muted">{t("noMatch")}</p>} />;
}

interface Paged {
  error: Error | null;
  hasNextPage: boolean;
  isFetchingNextPage: boolean;
  fetchNextPage: () => Promise<unknown>;
  refetch: () => Promise<unknown>;
}

function Rows({ rows, current, query, empty, onOpen }: { rows: readonly Row[] | undefined; current: Place; query: Paged; empty: ReactNode; onOpen: (() => void) | undefined }): ReactNode {
  const t = useText(chatTexts);
  const ids = useId();
  if (query.error !== null && rows === undefined) return <ErrorNote error={query.error} onRetry={() => void query.refetch()} />;
  if (rows === undefined) return <Skeleton rows={6} />;
  if (rows.length === 0 && !query.hasNextPage) return empty;
  return (
    <ul className="flex flex-col gap-0.5">
      {rows.map((row, index) => (
        <li key={row.key} className="group relative">
          <Link
            to="/chat"
            search={searchOf(row.place)}
            onClick={onOpen}
            aria-current={isSame(row.place, current) ? "page" : undefined}
            className={cn("flex flex-col rounded-md px-2 py-1.5 hover:bg-raised", isSame(row.place, current) && "bg-raised", row.isPinned !== undefined && "pr-8")}
          >
            <span id={`${ids}-${index}`} dir="auto" className={cn(row.snippet ? "line-clamp-2" : "truncate", row.isUnread === true && "font-medium")}>{row.title}</span>
            <span className="flex items-center gap-2 text-sm text-muted">
              {row.isUnread === true ? <span className="size-2 shrink-0 rounded-full bg-accent"><span className="sr-only">{t("unread")}</span></span> : null}
              <Time at={row.at} />
              {row.place.thread === undefined ? null : <span className="truncate">{row.place.thread}</span>}
              {row.place.bot === undefined ? null : <span className="truncate">{row.place.bot}</span>}
            </span>
          </Link>
          {row.isPinned === undefined ? null : <PinButton row={row} isPinned={row.isPinned} titleId={`${ids}-${index}`} />}
        </li>
      ))}
      {query.hasNextPage ? <li><Button kind="ghost" size="sm" busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>{t("older")}</Button></li> : null}
    </ul>
  );
}

function PinButton({ row, isPinned, titleId }: { row: Row; isPinned: boolean; titleId: string }): ReactNode {
  const t = useText(chatTexts);
  const { change } = useMarks();
  const name = t(isPinned ? "unpin" : "pin");
  return (
    <button
      type="button"
      aria-label={name}
      aria-describedby={titleId}
      title={name}
      className={cn("absolute top-1.5 right-1 grid size-6 place-items-center rounded-sm text-muted hover:bg-pressed hover:text-text", !isPinned && "opacity-0 group-hover:opacity-100 focus-visible:opacity-100 pointer-coarse:opacity-100")}
      onClick={() => change((marks) => (isPinned ? withoutPin(marks, row.place) : withPin(marks, { place: row.place, title: row.title, at: row.at })))}
    >
      {isPinned ? <><Pin aria-hidden className="size-3.5! fill-current group-hover:hidden" /><PinOff aria-hidden className="size-3.5! hidden group-hover:block" /></> : <Pin aria-hidden className="size-3.5!" />}
    </button>
  );
}

export function searchOf(place: Place): { conversation: string; thread?: string; bot?: string } {
  return { conversation: place.conversation, ...(place.thread === undefined ? {} : { thread: place.thread }), ...(place.bot === undefined ? {} : { bot: place.bot }) };
}

function isSame(one: Place, other: Place): boolean {
  return one.conversation === other.conversation && one.thread === other.thread && one.bot === other.bot;
}

function rowOf(item: Conversation, untitled: string): Row {
  const place = placeOf(item);
  return { key: keyOf(place), place, title: item.title === "" ? untitled : item.title, at: item.last_message_at, snippet: false };
}

function rowOfFound(item: FoundMessage): Row {
  return { key: item.transcript_id, place: placeOf(item), title: item.snippet, at: item.created_at, snippet: true };
}
