/** The pieces of an answer: text, thinking, tool calls, requests, files, and messages that went into the run. */
import { Brain, ChevronRight, CornerDownRight } from "lucide-react";
import { lazy, memo, Suspense, type ReactNode } from "react";
import { FileChip } from "@/parts/file-chip";
import type { Block, BlockOf, Source } from "@/parts/run-block";
import { ToolCallLine } from "@/parts/tool-call-line";
import { useText } from "@/i18n/i18n";
import { Skeleton } from "@/ui/feedback";
import { Markdown } from "@/ui/markdown";
import { Tooltip } from "@/ui/overlay";
import { chatTexts } from "./texts";
import { UserMessage } from "./user-message";

// Most conversations have no requests: their cards are not in the first load.
const ApprovalCard = lazy(() => import("@/parts/approval-card").then((part) => ({ default: part.ApprovalCard })));
const QuestionCard = lazy(() => import("@/parts/question-card").then((part) => ({ default: part.QuestionCard })));

export interface AnswerContext {
  runId: string;
  live: boolean;
  /** The text of a message that went into the run. */
  said: (eventId: string) => { text: string; files: readonly BlockOf<"file">["file"][] } | undefined;
}

/** Only a block that changed is drawn again: the reducer keeps the others. */
export const AnswerBlock = memo(function AnswerBlock({ block, runId, live, said }: { block: Block; runId: string; live: boolean; said: AnswerContext["said"] }): ReactNode {
  switch (block.kind) {
    case "text":
      return (
        <div className="min-w-0 text-chat">
          <Markdown text={block.text} streaming={block.open && live} />
          <Sources sources={block.sources} />
        </div>
      );
    case "thinking":
      return <Thinking text={block.text} open={block.open && live} />;
    case "call":
      return <ToolCallLine call={block.call} live={live} />;
    case "approval":
      return <Suspense fallback={<Skeleton rows={3} />}><ApprovalCard approvalId={block.approvalId} status={block.status} /></Suspense>;
    case "question":
      return <Suspense fallback={<Skeleton rows={3} />}><QuestionCard asked={{ ...block, runId, status: live || block.status !== "asked" ? block.status : "expired" }} /></Suspense>;
    case "file":
      return <FileChip file={block.file} />;
    case "steering":
      return <Steered block={block} said={said} />;
  }
});

function Thinking({ text, open }: { text: string; open: boolean }): ReactNode {
  const t = useText(chatTexts);
  return (
    <details className="group/thinking text-base text-muted">
      <summary className="flex w-fit list-none items-center gap-1.5 [&::-webkit-details-marker]:hidden">
        <Brain aria-hidden className={open ? "animate-pulse-dot" : undefined} />
        {t(open ? "thinking" : "thought")}
        <ChevronRight aria-hidden className="transition-transform group-open/thinking:rotate-90" />
      </summary>
      <p dir="auto" className="mt-1 ml-2 border-l-2 border-line pl-3.5 whitespace-pre-wrap">{text}</p>
    </details>
  );
}

function Sources({ sources }: { sources: readonly Source[] }): ReactNode {
  const t = useText(chatTexts);
  if (sources.length === 0) return null;
  return (
    <ul aria-label={t("sources")} className="mt-2 flex flex-wrap gap-1.5">
      {sources.map((source) => (
        <li key={source.id} className="min-w-0">
          <Tooltip text={[source.name, source.source, source.knowledgeBase].filter(Boolean).join(" · ")}>
            <span tabIndex={0} className="inline-flex max-w-64 items-center gap-1.5 rounded-full border border-line bg-surface py-0.5 pr-2.5 pl-1 text-sm">
              <span className="grid size-4.5 shrink-0 place-items-center rounded-full bg-raised text-xs">{source.id}</span>
              <span dir="auto" className="truncate">{source.name || source.source}</span>
            </span>
          </Tooltip>
        </li>
      ))}
    </ul>
  );
}

function Steered({ block, said }: { block: BlockOf<"steering">; said: AnswerContext["said"] }): ReactNode {
  const t = useText(chatTexts);
  const message = said(block.eventId);
  if (message === undefined) return null;
  const word = block.status === "queued" ? "absorbed.queued" : block.status === "dropped" ? (block.redispatch ? "absorbed.dropped" : "absorbed.lost") : "absorbed";
  return <UserMessage text={message.text} files={message.files} caption={<><CornerDownRight aria-hidden />{t(word)}</>} />;
}
