/** What a person has pinned and read, per person and workspace, in this browser. */
import { useCallback, useMemo, useSyncExternalStore } from "react";
import { useSession } from "@/api/session";
import type { Place } from "./history";

export interface Pin {
  place: Place;
  title: string;
  at: number;
}
export interface Marks {
  /** When the browser began to mark, in seconds: older messages count as read. */
  since: number;
  pins: readonly Pin[];
  /** The time of the newest message that was seen, by conversation. */
  read: Readonly<Record<string, number>>;
}

const PREFIX = "bollard.chat.marks.";
const READ_KEPT = 500;
const listeners = new Set<() => void>();
const cache = new Map<string, Marks>();

export function keyOf(place: Place): string {
  return [place.conversation, place.thread, place.bot].join("\n");
}

export function isUnread(marks: Marks, place: Place, newest: number): boolean {
  return newest > (marks.read[keyOf(place)] ?? marks.since);
}

export function withRead(marks: Marks, place: Place, newest: number): Marks {
  if (!isUnread(marks, place, newest)) return marks;
  const read = Object.entries({ ...marks.read, [keyOf(place)]: newest }).sort(([, one], [, other]) => other - one);
  // What is forgotten is older than `since` afterwards, and so stays read.
  const since = Math.max(marks.since, read[READ_KEPT]?.[1] ?? 0);
  return { ...marks, since, read: Object.fromEntries(read.slice(0, READ_KEPT)) };
}

/** A pin keeps its title: its conversation may be on a page of the list that is not loaded. */
export function withPin(marks: Marks, pin: Pin): Marks {
  return marks.pins.some((each) => keyOf(each.place) === keyOf(pin.place)) ? marks : { ...marks, pins: [...marks.pins, pin] };
}

export function withoutPin(marks: Marks, place: Place): Marks {
  return { ...marks, pins: marks.pins.filter((pin) => keyOf(pin.place) !== keyOf(place)) };
}

export function useMarks(): { marks: Marks; change: (change: (marks: Marks) => Marks) => void } {
  const { session, workspace } = useSession();
  const key = `${PREFIX}${session.user_id ?? session.name}.${workspace}`;
  const marks = useSyncExternalStore(subscribe, () => read(key));
  const change = useCallback((by: (marks: Marks) => Marks) => {
    const next = by(read(key));
    if (next === read(key)) return;
    localStorage.setItem(key, JSON.stringify(next));
    cache.set(key, next);
    for (const listener of listeners) listener();
  }, [key]);
  return useMemo(() => ({ marks, change }), [marks, change]);
}

/** Other tabs of the browser change the same marks. */
function subscribe(listener: () => void): () => void {
  const changed = (event: StorageEvent): void => {
    if (event.key === null || event.key.startsWith(PREFIX)) {
      cache.clear();
      listener();
    }
  };
  listeners.add(listener);
  globalThis.addEventListener("storage", changed);
  return () => {
    listeners.delete(listener);
    globalThis.removeEventListener("storage", changed);
  };
}

function read(key: string): Marks {
  const known = cache.get(key) ?? stored(key);
  cache.set(key, known);
  return known;
}

function stored(key: string): Marks {
  const fresh: Marks = { since: Date.now() / 1000, pins: [], read: {} };
  try {
    const value = { ...fresh, ...(JSON.parse(localStorage.getItem(key) ?? "null") as Partial<Marks> | null) };
    if (localStorage.getItem(key) === null) localStorage.setItem(key, JSON.stringify(value));
    return Array.isArray(value.pins) && typeof value.read === "object" && typeof value.since === "number" ? value : fresh;
  } catch {
    return fresh;
  }
}

/** The place of an item of a list or a search. */
export function placeOf(item: { conversation_id: string; thread_id?: string | null; bot_id?: string | null }): Place {
  return { conversation: item.conversation_id, thread: item.thread_id ?? undefined, bot: item.bot_id ?? undefined };
}
