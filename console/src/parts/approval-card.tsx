/** A parked call that waits for a person. It is decided by its buttons, or by keys while the card itself has the focus; never by a message. */
import { ApiError, decideApproval, getApproval, type Approval } from "@bollard/client";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Ban, CircleCheck, CirclePause, TimerOff } from "lucide-react";
import { useId, useRef, useState, type KeyboardEvent, type MouseEvent, type ReactNode } from "react";
import { useSession } from "@/api/session";
import { useErrorText } from "@/i18n/errors";
import { useLanguage, useText } from "@/i18n/i18n";
import { RiskBadge } from "@/parts/risk-badge";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { cn } from "@/ui/classes";
import { Time } from "@/ui/data";
import { ErrorNote, Skeleton } from "@/ui/feedback";
import { ApprovalRequest } from "./approval-request";
import { approvalTexts } from "./approval-texts";
import { takeDecision, useArmed } from "./decision-guard";
import { Deadline } from "./deadline";
import { RunLink } from "./run-link";

type Decision = NonNullable<Approval["decision"]>;

export interface ApprovalCardProps {
  approvalId: string;
  /** The state that a stream reports; a change fetches the approval again. */
  status?: string;
  showRun?: boolean;
  /** Show what was asked for also after the decision. */
  showRequest?: boolean;
  className?: string;
}

export function ApprovalCard({ approvalId, status, showRun = false, showRequest = false, className }: ApprovalCardProps): ReactNode {
  const { language } = useLanguage();
  const locale = language === "zh" ? "zh_Hans" : "en_US";
  const query = useQuery({ queryKey: ["approvals", "one", approvalId, locale, status ?? ""], queryFn: () => getApproval({ path: { approval_id: approvalId }, query: { locale } }), placeholderData: (before) => before });
  if (query.data === undefined) {
    return query.error === null ? <Skeleton rows={2} /> : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />;
  }
  return <Card approval={query.data} showRun={showRun} showRequest={showRequest} className={className} />;
}

function Card({ approval, showRun, showRequest, className }: { approval: Approval; showRun: boolean; showRequest: boolean; className: string | undefined }): ReactNode {
  const t = useText(approvalTexts);
  const id = useId();
  const { may } = useSession();
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set());
  const { decide, mutation, armed } = useDecision(approval, opened);
  const waits = approval.status === "requested";
  const mine = waits && may("approvals.decide") && approval.refusal === undefined;
  const unseen = approval.display.attached.some((content) => !opened.has(content.number));
  const onKeyDown = (event: KeyboardEvent<HTMLElement>): void => {
    if (!mine) return;
    const decides = event.key === "Enter" || event.key === " " || event.key === "Backspace";
    if (event.repeat && decides) event.preventDefault(); // a held key decides nothing
    if (event.repeat || event.nativeEvent.isComposing || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
    const own = event.target === event.currentTarget;
    if (event.key === "Enter" && own && !unseen) decide("allow_once");
    if (event.key === "Backspace") {
      event.preventDefault();
      decide("deny");
    }
  };
  return (
    <section tabIndex={0} aria-labelledby={id} aria-keyshortcuts={mine ? "Enter Backspace" : undefined} onKeyDown={onKeyDown} data-approval={approval.approval_id} className={cn("flex min-w-0 flex-col gap-3 rounded-lg border bg-surface text-base", waits ? "border-wait-line p-4" : "border-line px-2.5 py-1.5", className)}>
      {waits ? <Header approval={approval} mine={mine} id={id} /> : <Decided approval={approval} id={id} />}
      {waits || showRequest ? <ApprovalRequest approval={approval} onOpened={(number) => setOpened((all) => new Set(all).add(number))} /> : null}
      {approval.refusal === undefined || !waits ? null : <Refusal refusal={approval.refusal} />}
      {mine ? <Decisions armed={armed} busy={mutation.isPending} unseen={unseen} decide={decide} /> : null}
      {mutation.error === null ? null : <ErrorNote error={mutation.error} />}
      {showRun ? <RunLink run={approval.run_id} className="w-fit text-sm text-accent-text underline underline-offset-2">{t("run")}</RunLink> : null}
    </section>
  );
}

/** One decision at a time; the first press counts, and a press right after another decision does not. */
function useDecision(approval: Approval, opened: ReadonlySet<number>): { decide: (decision: Decision) => void; mutation: { isPending: boolean; error: Error | null }; armed: boolean } {
  const queries = useQueryClient();
  const armed = useArmed();
  const sent = useRef(false);
  const mutation = useMutation({
    mutationFn: (decision: Decision) => {
      const inspected = opened.size > 0 && decision.startsWith("allow");
      return decideApproval({ path: { approval_id: approval.approval_id }, body: { decision, digest: approval.digest, ...(inspected ? { inspected } : {}) } });
    },
    onSettled: () => queries.invalidateQueries({ queryKey: ["approvals"] }),
    onError: () => {
      sent.current = false;
    },
  });
  const decide = (decision: Decision): void => {
    if (!armed || sent.current || !takeDecision()) return;
    sent.current = true;
    mutation.mutate(decision);
  };
  return { decide, mutation, armed };
}

function Header({ approval, mine, id }: { approval: Approval; mine: boolean; id: string }): ReactNode {
  const t = useText(approvalTexts);
  return (
    <header className="flex flex-wrap items-center gap-x-3 gap-y-1">
      <Badge tone="wait" icon={CirclePause}>{t(mine ? "waiting" : "waitingOther")}</Badge>
      <h3 id={id} className="min-w-0 font-mono">{approval.name}</h3>
      <RiskBadge risk={approval.risk} />
      <span className="text-sm text-muted">{t("asked")} <Time at={approval.requested_at} /></span>
      <span className="text-sm text-muted">{t("expires")} <Deadline at={approval.expires_at} /></span>
    </header>
  );
}

function Decisions({ armed, busy, unseen, decide }: { armed: boolean; busy: boolean; unseen: boolean; decide: (decision: Decision) => void }): ReactNode {
  const t = useText(approvalTexts);
  const press = (decision: Decision) => (event: MouseEvent): void => {
    if (event.detail > 1) return; // the second click of a double click
    decide(decision);
  };
  const off = !armed || busy;
  return (
    <div className="flex flex-col gap-1.5">
      <div className="flex flex-wrap gap-2">
        <Button kind="primary" disabled={off || unseen} busy={busy} onClick={press("allow_once")}>{t("allow_once")} <kbd aria-hidden className="font-sans text-sm opacity-80">⏎</kbd></Button>
        <Button disabled={off || unseen} onClick={press("allow_run")}>{t("allow_run")}</Button>
        <Button kind="danger" disabled={off} onClick={press("deny")}>{t("deny")} <kbd aria-hidden className="font-sans text-sm opacity-80">⌫</kbd></Button>
        <Button kind="ghost" disabled={off} onClick={press("deny_stop")}>{t("deny_stop")}</Button>
      </div>
      <p className="text-sm text-muted">{unseen ? t("openFirst") : t("keys")}</p>
    </div>
  );
}

function Decided({ approval, id }: { approval: Approval; id: string }): ReactNode {
  const t = useText(approvalTexts);
  const denied = approval.status === "denied";
  const Icon = approval.status === "expired" ? TimerOff : denied ? Ban : CircleCheck;
  const decision = approval.decision;
  const sentence = decision !== undefined ? t(`decided.${decision}`, { name: approval.name }) : t(approval.status === "expired" ? "expired" : "closed", { name: approval.name });
  return (
    <div className="flex flex-wrap items-center gap-x-2 text-muted">
      <Icon aria-hidden className={denied ? "text-fail" : undefined} />
      <h3 id={id} className="font-normal!">{sentence}</h3>
      {approval.by === undefined ? null : <span>{t("by", { by: approval.by })}</span>}
      {approval.decided_at === undefined ? null : <Time at={approval.decided_at} className="text-sm" />}
    </div>
  );
}

function Refusal({ refusal }: { refusal: NonNullable<Approval["refusal"]> }): ReactNode {
  const { message, hint } = useErrorText(new ApiError(refusal, 403));
  return <p className="text-muted">{message} {hint}</p>;
}
