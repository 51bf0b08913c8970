import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import type { AgentRun } from "@bollard/client";
import { useVisible } from "@/api/live";
import { SESSION_KEY, useSession } from "@/api/session";
import { RunFeeds } from "@/parts/run-feed";
import { historyKey, type Place } from "./history";
import { hasEnded } from "./turns";

/** A browser allows few connections to one host. Runs of a conversation usually follow each other; later ones are read when they begin. */
const AT_ONCE = 2;

/** Follows the active runs of a conversation. A hidden page follows none and resumes where it was. */
export function useFollowedRuns(place: Place, runs: readonly AgentRun[]): RunFeeds {
  const queries = useQueryClient();
  const { workspace } = useSession();
  const visible = useVisible();
  const [feeds] = useState(() => new RunFeeds());
  const active = runs.filter((run) => !hasEnded(run)).slice(-AT_ONCE).map((run) => run.run_id).join(" ");
  useEffect(() => {
    if (!visible || active === "") return;
    const abort = new AbortController();
    const onSignedOut = (): void => void queries.invalidateQueries({ queryKey: SESSION_KEY });
    for (const runId of active.split(" ")) {
      const feed = feeds.open(runId);
      void feed.follow({ signal: abort.signal, headers: { "bollard-workspace": workspace }, onSignedOut }).then(() => {
        if (!abort.signal.aborted) void queries.invalidateQueries({ queryKey: historyKey(place) });
      });
    }
    return () => abort.abort();
  }, [active, feeds, place, queries, visible, workspace]);
  return feeds;
}
