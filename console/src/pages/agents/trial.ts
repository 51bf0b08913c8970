/** A test conversation with the saved agent. It lives as long as the page, also over a save. */
import { ApiError, cancelRun, createRun } from "@bollard/client";
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { useVisible } from "@/api/live";
import { SESSION_KEY, useSession } from "@/api/session";
import { useLanguage } from "@/i18n/i18n";
import { RunFeeds, type RunFeed } from "@/parts/run-feed";

export interface Exchange {
  text: string;
  /** Absent until the host has accepted the message. */
  runId?: string;
  error?: unknown;
}
export interface Trial {
  exchanges: readonly Exchange[];
  feed: (runId: string) => RunFeed;
  /** The message is on its way, or its run is active. */
  busy: boolean;
  say: (text: string) => void;
  stop: () => void;
  /** Begins a new conversation. */
  clear: () => void;
}

function newConversation(): string {
  return `agent-test-${crypto.getRandomValues(new Uint32Array(3)).join("-")}`;
}

export function useTrial(agent: string): Trial {
  const queries = useQueryClient();
  const { workspace } = useSession();
  const { language } = useLanguage();
  const visible = useVisible();
  const [conversation, setConversation] = useState(newConversation);
  const [exchanges, setExchanges] = useState<readonly Exchange[]>([]);
  const [ended, setEnded] = useState<string>();
  const [feeds] = useState(() => new RunFeeds());
  const last = exchanges.at(-1);
  const active = last?.runId !== ended ? last?.runId : undefined;
  useEffect(() => {
    if (active === undefined || !visible) return;
    const abort = new AbortController();
    const onSignedOut = (): void => void queries.invalidateQueries({ queryKey: SESSION_KEY });
    void feeds.open(active).follow({ signal: abort.signal, headers: { "bollard-workspace": workspace }, onSignedOut }).then(() => {
      if (!abort.signal.aborted) setEnded(active);
    });
    return () => abort.abort();
  }, [active, feeds, queries, visible, workspace]);

  const send = async (text: string): Promise<void> => {
    const settle = (change: Partial<Exchange>): void => setExchanges((before) => [...before.slice(0, -1), { text, ...change }]);
    setExchanges((before) => [...before, { text }]);
    try {
      const timezone = Intl.DateTimeFormat().resolvedOptions().timeZone;
      const accepted = await createRun({ body: { agent, conversation, input: { text }, locale: language === "zh" ? "zh_Hans" : "en_US", timezone } });
      if (accepted.reason !== undefined && accepted.reason !== null) throw new ApiError(accepted.reason, 0);
      settle(accepted.run_id === null ? {} : { runId: accepted.run_id });
    } catch (error) {
      settle({ error });
    }
  };
  return {
    exchanges,
    feed: (runId) => feeds.open(runId),
    busy: last !== undefined && last.error === undefined && (last.runId === undefined || active !== undefined),
    say: (text) => void send(text),
    stop: () => {
      if (active !== undefined) void cancelRun({ path: { run_id: active } }).catch(() => undefined); // a run that has just ended cannot be stopped
    },
    clear: () => {
      setExchanges([]);
      setConversation(newConversation());
    },
  };
}
