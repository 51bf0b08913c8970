import type { AgentRun } from "@bollard/client";
import { Ban, CircleAlert } from "lucide-react";
import type { ReactNode } from "react";
import { object, text } from "@/parts/record-values";
import type { RunEnd } from "@/parts/run-progress";
import { useHostWords } from "@/i18n/errors";
import { useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { chatTexts } from "./texts";

const KNOWN = ["host.lost", "runner.timeout", "runner.crashed", "runner.no_output", "runner.error", "revoked"] as const;

/** How a run ended, if it did not complete: a sentence, and what to do. */
export function RunEnding({ run, end, onRepeat }: { run: AgentRun; end: RunEnd | undefined; onRepeat: (() => void) | undefined }): ReactNode {
  const t = useText(chatTexts);
  const words = useHostWords();
  const status = end?.status ?? run.status;
  if (status !== "failed" && status !== "cancelled" && status !== "timeout") return null;
  const error = object(run.error);
  const code = end?.code ?? text(error.code) ?? run.status_reason ?? undefined;
  const known = KNOWN.find((each) => each === code);
  if (status === "cancelled" && known === undefined) return <p className="flex items-center gap-2 text-muted"><Ban aria-hidden />{t("cancelled")}</p>;
  const said = end?.error ?? text(error.message) ?? code ?? status;
  const why = words.error("run_ended", { ...(end?.details ?? object(error.details)), problem: said, reason: code }, said, undefined).message;
  const sentence = t(known === undefined ? "end.other" : `end.${known}`, { error: why });
  return (
    <div role="alert" className="flex items-start gap-2 rounded-lg border border-fail/40 bg-fail-soft p-3">
      <CircleAlert aria-hidden className="mt-0.5 text-fail" />
      <div className="min-w-0 flex-1">
        <p>{sentence}</p>
        <div className="mt-1 flex flex-wrap items-center gap-2">
          {code === undefined ? null : <code className="font-mono text-sm text-muted">{code}</code>}
          {onRepeat === undefined ? null : <Button size="sm" onClick={onRepeat}>{t("repeat")}</Button>}
        </div>
      </div>
    </div>
  );
}
