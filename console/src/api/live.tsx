/** What changes on the host while the page is open: a visible tab reads the stream of changes, and polls what has no event there. */
import { resumableStream, type StreamRecord, type StreamStatus } from "@bollard/client";
import { useQueryClient } from "@tanstack/react-query";
import { createContext, use, useEffect, useState, type ReactNode } from "react";
import { isSignedOut, SESSION_KEY, useSession } from "./session";

export interface Connection {
  status: StreamStatus | "offline";
  /** Since when it is live, or lost, in milliseconds. */
  since: number;
}

const Context = createContext<Connection>({ status: "connecting", since: 0 });
/** Refreshes of one kind happen at most this often. */
const PAUSE_MS = 400;
const SIGN_IN_MS = 3_000;
const POLL_MS = 5_000;

export function isLost(status: Connection["status"]): status is "reconnecting" | "offline" {
  return status === "reconnecting" || status === "offline";
}

export function useConnection(): Connection {
  return use(Context);
}

/** The queries that an event makes stale, by the beginning of its type. Pages use these names as first part of their keys. */
export const STALE: readonly (readonly [prefix: string, keys: readonly string[]])[] = [
  ["run.", ["runs", "overview", "conversations"]],
  ["approval.", ["approvals", "runs", "overview"]],
  ["question.", ["questions", "runs", "overview"]],
];

export function staleKeys(type: string): readonly string[] {
  return STALE.find(([prefix]) => type.startsWith(prefix))?.[1] ?? [];
}

export function LiveProvider({ children }: { children: ReactNode }): ReactNode {
  const queries = useQueryClient();
  const { workspace } = useSession();
  const [connection, setConnection] = useState<Connection>({ status: "connecting", since: 0 });
  const visible = useVisible();
  usePoll(visible);
  useEffect(() => {
    if (!visible) return; // a browser allows few connections to one host: hidden tabs hold none
    const abort = new AbortController();
    const due = new Set<string>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const refresh = (): void => {
      timer = undefined;
      for (const key of due) void queries.invalidateQueries({ queryKey: [key] });
      due.clear();
    };
    const take = (record: StreamRecord): void => {
      const type = typeof record.data.type === "string" ? record.data.type : record.type;
      for (const key of staleKeys(type)) due.add(key);
      if (due.size > 0) timer ??= setTimeout(refresh, PAUSE_MS);
    };
    const onStatus = (status: StreamStatus): void => {
      setConnection((before) => {
        if (status === "live" && isLost(before.status)) void queries.invalidateQueries(); // the host may have restarted
        const next = status === "reconnecting" && !navigator.onLine ? "offline" : status;
        return before.status === next ? before : { status: next, since: isLost(before.status) && isLost(next) ? before.since : Date.now() };
      });
    };
    const read = async (): Promise<void> => {
      try {
        for await (const record of resumableStream("/api/v1/changes/stream", { signal: abort.signal, onStatus, headers: { "bollard-workspace": workspace } })) take(record);
      } catch (error) {
        // A person without the right to runs: their pages refresh when they come back to the tab.
        setConnection({ status: "live", since: Date.now() });
        if (!isSignedOut(error)) return;
        void queries.invalidateQueries({ queryKey: SESSION_KEY });
        again = setTimeout(() => void read(), SIGN_IN_MS); // the person may have signed in again
      }
    };
    let again: ReturnType<typeof setTimeout> | undefined;
    void read();
    void queries.invalidateQueries(); // the tab may have been hidden for hours
    return () => {
      abort.abort();
      clearTimeout(timer);
      clearTimeout(again);
    };
  }, [queries, visible, workspace]);
  return <Context value={connection}>{children}</Context>;
}

/** Asks again for what has no event, as `POLLED` marks it. Only queries of mounted components make requests. */
function usePoll(visible: boolean): void {
  const queries = useQueryClient();
  useEffect(() => {
    if (!visible) return;
    const poll = (): void => void queries.invalidateQueries({ predicate: ({ meta }) => meta?.isPolled === true }, { cancelRefetch: false });
    const timer = setInterval(poll, POLL_MS);
    return () => clearInterval(timer);
  }, [queries, visible]);
}

export function useVisible(): boolean {
  const [visible, setVisible] = useState(() => document.visibilityState !== "hidden");
  useEffect(() => {
    const look = (): void => setVisible(document.visibilityState !== "hidden");
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, []);
  return visible;
}
