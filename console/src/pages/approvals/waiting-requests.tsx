/** Requests that wait for a person: parked calls and questions, oldest first, decided with the keyboard. */
import { listApprovals, listQuestions, type ApprovalSummary, type OpenQuestion } from "@bollard/client";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useRef, type KeyboardEvent, type ReactNode, type RefObject } from "react";
import { useSession } from "@/api/session";
import { ApprovalCard } from "@/parts/approval-card";
import { QuestionCard } from "@/parts/question-card";
import { useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { Empty, ErrorNote, Skeleton } from "@/ui/feedback";
import { inboxTexts } from "./texts";

const SHOWN = 50;

export interface Waiting {
  approvals: readonly ApprovalSummary[];
  questions: readonly OpenQuestion[];
  count: number;
  hasMore: boolean;
  isLoading: boolean;
  error: Error | null;
  refetch: () => void;
}

export function useWaiting(): Waiting {
  const { may } = useSession();
  const approvals = useQuery({ queryKey: ["approvals", "requested"], queryFn: () => listApprovals({ query: { status: "requested", limit: SHOWN } }) });
  const questions = useQuery({ queryKey: ["questions", "open"], queryFn: () => listQuestions({ query: { limit: SHOWN } }), enabled: may("runs.read") });
  const parked = (approvals.data?.items ?? []).toSorted((a, b) => a.requested_at - b.requested_at);
  const asked = questions.data?.items ?? [];
  return {
    approvals: parked,
    questions: asked,
    count: parked.length + asked.length,
    hasMore: approvals.data?.has_more === true || questions.data?.has_more === true,
    isLoading: approvals.isLoading || questions.isLoading,
    error: approvals.error ?? questions.error,
    refetch: () => {
      void approvals.refetch();
      void questions.refetch();
    },
  };
}

export function WaitingRequests({ waiting }: { waiting: Waiting }): ReactNode {
  const t = useText(inboxTexts);
  const { may } = useSession();
  const list = useRef<HTMLDivElement>(null);
  useKeptFocus(list, waiting.count);
  if (waiting.error !== null && waiting.count === 0) return <ErrorNote error={waiting.error} onRetry={waiting.refetch} />;
  if (waiting.isLoading) return <Skeleton rows={3} />;
  if (waiting.count === 0) {
    const action = may("agents.read") ? <Button asChild><Link to="/agents">{t("openAgents")}</Link></Button> : undefined;
    return <Empty title={t("none")} command="bollard approvals" {...(action === undefined ? {} : { action })}>{t("noneHint")}</Empty>;
  }
  return (
    <div ref={list} role="region" aria-label={t("requests")} tabIndex={-1} className="flex max-w-[860px] flex-col gap-4 outline-none" onKeyDown={moveFocus}>
      {may("approvals.decide") ? <p className="text-sm text-muted max-sm:hidden">{t("keys")}</p> : null}
      {waiting.hasMore ? <p className="text-sm text-wait">{t("more")}</p> : null}
      {waiting.approvals.map((approval) => <ApprovalCard key={approval.approval_id} approvalId={approval.approval_id} showRun />)}
      {waiting.questions.map((asked) => (
        <QuestionCard
          key={asked.question_id}
          showRun
          title={t("asks", { agent: asked.agent_id })}
          asked={{ runId: asked.run_id, questionId: asked.question_id, question: asked.question, choices: asked.choices ?? [], askedAt: asked.asked_at, status: "asked" }}
        />
      ))}
    </div>
  );
}

const STEPS: Partial<Record<string, number>> = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };

/** Moves the focus between cards. Keys typed into a field stay there. */
function moveFocus(event: KeyboardEvent<HTMLElement>): void {
  const step = STEPS[event.key];
  if (step === undefined || event.ctrlKey || event.metaKey || event.altKey || (event.target instanceof HTMLElement && event.target.matches("input, textarea, pre"))) return;
  const cards = [...event.currentTarget.querySelectorAll<HTMLElement>("[data-approval], [data-question]")];
  const at = cards.findIndex((card) => card.contains(document.activeElement));
  const next = cards[at < 0 ? (step > 0 ? 0 : cards.length - 1) : Math.min(cards.length - 1, Math.max(0, at + step))];
  event.preventDefault();
  next?.focus();
}

/** A decided card disappears with its focus. The focus then goes to the list, never to the next card: a second press must not decide that one. */
function useKeptFocus(list: RefObject<HTMLDivElement | null>, count: number): void {
  const before = useRef(count);
  useEffect(() => {
    if (count < before.current && document.activeElement === document.body) list.current?.focus();
    before.current = count;
  }, [count, list]);
}
