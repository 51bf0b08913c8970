/** Talks to the saved agent beside its form. */
import { ArrowUp, RotateCcw, Square } from "lucide-react";
import { useState, useSyncExternalStore, type KeyboardEvent, type ReactNode } from "react";
import { useText } from "@/i18n/i18n";
import { ApprovalCard } from "@/parts/approval-card";
import { FileChip } from "@/parts/file-chip";
import { QuestionCard } from "@/parts/question-card";
import type { Block } from "@/parts/run-block";
import type { RunFeed } from "@/parts/run-feed";
import { RunLink } from "@/parts/run-link";
import { ToolCallLine } from "@/parts/tool-call-line";
import { Button } from "@/ui/button";
import { Card } from "@/ui/data";
import { ErrorNote } from "@/ui/feedback";
import { Textarea } from "@/ui/field";
import { Markdown } from "@/ui/markdown";
import { texts } from "./texts";
import type { Trial } from "./trial";

export interface TestChatProps {
  trial: Trial;
  /** The agent was saved before, so that the host can run it. */
  isSaved: boolean;
  /** The form differs from the saved agent. */
  isChanged: boolean;
}

export function TestChat({ trial, isSaved, isChanged }: TestChatProps): ReactNode {
  const t = useText(texts);
  const clear = trial.exchanges.length === 0 ? undefined : <Button kind="ghost" size="sm" onClick={trial.clear}><RotateCcw aria-hidden />{t("testClear")}</Button>;
  return (
    <Card title={t("test")} actions={clear} className="lg:sticky lg:top-0">
      <div className="flex flex-col gap-3">
        {!isSaved ? <p className="text-muted">{t("testSaveFirst")}</p> : isChanged ? <p role="status" className="text-sm text-wait">{t("testUnsaved")}</p> : <p className="text-sm text-muted">{t("testAbout")}</p>}
        {trial.exchanges.length === 0 ? null : (
          <div role="log" tabIndex={0} aria-label={t("test")} className="flex max-h-[50dvh] min-h-24 flex-col-reverse overflow-y-auto scroll-thin">
            <div className="flex flex-col gap-4">
              {trial.exchanges.map((each, index) => (
                <div key={index} className="flex min-w-0 flex-col gap-2">
                  <p dir="auto" className="max-w-[85%] self-end rounded-lg bg-pressed px-3 py-1.5 whitespace-pre-wrap wrap-anywhere">{each.text}</p>
                  {each.error === undefined ? null : <ErrorNote error={each.error} />}
                  {each.runId === undefined ? null : <Answer runId={each.runId} feed={trial.feed(each.runId)} />}
                </div>
              ))}
            </div>
          </div>
        )}
        {isSaved ? <Composer trial={trial} /> : null}
      </div>
    </Card>
  );
}

function Composer({ trial }: { trial: Trial }): ReactNode {
  const t = useText(texts);
  const [typed, setTyped] = useState("");
  const ready = typed.trim() !== "" && !trial.busy;
  const send = (): void => {
    if (!ready) return;
    trial.say(typed.trim());
    setTyped("");
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    send();
  };
  return (
    <div className="flex items-end gap-2">
      <Textarea aria-label={t("testInput")} placeholder={t("testInput")} dir="auto" rows={1} className="max-h-40 min-h-8" value={typed} onChange={(event) => setTyped(event.target.value)} onKeyDown={onKeyDown} />
      {trial.busy ? <Button onClick={trial.stop}><Square aria-hidden className="size-3! fill-current" />{t("testStop")}</Button> : <Button kind="primary" disabled={!ready} onClick={send}><ArrowUp aria-hidden />{t("testSend")}</Button>}
    </div>
  );
}

/** The pieces of an answer as they come, how it ended, and a link to its run. */
function Answer({ runId, feed }: { runId: string; feed: RunFeed }): ReactNode {
  const t = useText(texts);
  const progress = useSyncExternalStore(feed.subscribe, feed.progress);
  const failure = useSyncExternalStore(feed.subscribe, feed.error);
  const { end, blocks } = progress;
  const live = end === undefined;
  const badEnd = end === undefined || end.status === "completed" ? undefined : end.error ?? end.code ?? end.status;
  return (
    <div className="flex min-w-0 flex-col gap-2">
      {blocks.map((block) => <Piece key={block.key} block={block} runId={runId} live={live} />)}
      {badEnd === undefined ? null : <p role="alert" className="rounded-md border border-fail/40 bg-fail-soft px-3 py-2 wrap-anywhere">{t("testEnded", { reason: badEnd })}</p>}
      {failure === undefined ? null : <ErrorNote error={failure} />}
      <p className="flex items-center gap-2 text-sm text-muted">
        {live && failure === undefined ? <span role="status">{t(progress.status === "waiting" ? "testWaiting" : "testRunning")}</span> : null}
        <RunLink run={runId} className="text-accent-text hover:underline">{t("testRun")}</RunLink>
      </p>
    </div>
  );
}

function Piece({ block, runId, live }: { block: Block; runId: string; live: boolean }): ReactNode {
  const t = useText(texts);
  switch (block.kind) {
    case "text":
      return <div className="min-w-0"><Markdown text={block.text} streaming={block.open && live} /></div>;
    case "thinking":
      return (
        <details className="text-sm text-muted">
          <summary>{t("testThinking")}</summary>
          <p dir="auto" className="mt-1 border-l-2 border-line pl-3 whitespace-pre-wrap">{block.text}</p>
        </details>
      );
    case "call":
      return <ToolCallLine call={block.call} live={live} />;
    case "approval":
      return <ApprovalCard approvalId={block.approvalId} status={block.status} />;
    case "question":
      return <QuestionCard asked={{ ...block, runId, status: live || block.status !== "asked" ? block.status : "expired" }} />;
    case "file":
      return <FileChip file={block.file} />;
    case "steering":
      return null; // the test sends no message into an active run
  }
}
