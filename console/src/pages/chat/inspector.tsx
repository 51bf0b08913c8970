/** The run behind the selected answer: its steps in small, with a link to its page. A chunk of its own. */
import type { AgentRun } from "@bollard/client";
import { useNavigate } from "@tanstack/react-router";
import { X } from "lucide-react";
import { useState, type ReactNode } from "react";
import { useFormats } from "@/i18n/format";
import { useText } from "@/i18n/i18n";
import { RunLink } from "@/parts/run-link";
import { useRecords, useUntil } from "@/parts/timeline/run-records";
import type { Span } from "@/parts/timeline/span";
import { Waterfall } from "@/parts/timeline/waterfall";
import { RunState } from "@/ui/badge";
import { Button } from "@/ui/button";
import { ErrorNote, Skeleton } from "@/ui/feedback";
import { chatTexts } from "./texts";

interface InspectorProps {
  run: AgentRun;
  agentName: string;
  /** Reads the records anew. */
  onRetry: () => void;
  onClose: () => void;
}

export default function Inspector({ run, agentName, onRetry, onClose }: InspectorProps): ReactNode {
  const t = useText(chatTexts);
  const { duration } = useFormats();
  const navigate = useNavigate();
  const view = useRecords(run.run_id);
  const until = useUntil(run, view);
  const { timeline, version, loading, error } = view;
  const [selected, setSelected] = useState<string>();
  const from = timeline.run.start || run.created_at;
  const open = (): void => void navigate({ to: "/runs/$runId", params: { runId: run.run_id }, search: selected === undefined ? {} : { at: selected } });
  return (
    <>
      <header className="flex h-12 shrink-0 items-center gap-2 border-b border-line pr-2 pl-4">
        <h2 className="min-w-0 flex-1 truncate">{t("run")}</h2>
        <RunState state={run.status} />
        <Button kind="ghost" size="icon" aria-label={t("hideRun")} onClick={onClose}><X aria-hidden /></Button>
      </header>
      {error === undefined ? null : <div className="p-3"><ErrorNote error={error} onRetry={onRetry} /></div>}
      {timeline.size === 0 ? <div className="flex-1 p-4">{loading ? <Skeleton rows={6} /> : null}</div> : (
        <Waterfall spans={[timeline.run]} version={version} from={from} until={until} nameOf={(span) => (span.kind === "run" ? agentName : wordsOf(span))} selected={selected} onSelect={setSelected} onOpen={open} className="flex-1" />
      )}
      <footer className="flex shrink-0 items-center gap-2 border-t border-line px-4 py-2.5 text-sm text-muted">
        <span className="flex-1 tabular-nums">{duration((until - from) * 1_000)}</span>
        <RunLink run={run.run_id} at={selected} className="text-accent-text hover:underline">{t(selected === undefined ? "openRun" : "openStep")}</RunLink>
      </footer>
    </>
  );
}

/** Names that say something in a narrow column; the page of the run has the sentences. */
function wordsOf({ kind, name, text }: Span): string {
  if (kind === "message") return text.trimStart().split("\n", 1)[0]?.trimEnd() ?? "";
  return kind === "route" || kind === "steering" ? "" : name;
}
