/** A question of an agent: its choices as buttons, or a text. An answer is never an approval. */
import { answerRunQuestion } from "@bollard/client";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { CircleCheck, CircleHelp, TimerOff } from "lucide-react";
import { useId, useState, type ReactNode } from "react";
import { useSession } from "@/api/session";
import { catalogue, useText } from "@/i18n/i18n";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { cn } from "@/ui/classes";
import { Time } from "@/ui/data";
import { ErrorNote } from "@/ui/feedback";
import { Input } from "@/ui/field";
import { RunLink } from "./run-link";

const texts = catalogue(
  { waiting: "The agent asks you", asked: "Asked", answer: "Your answer", send: "Answer", answered: "Answered: {answer}", expired: "The question has expired", run: "Open run", closed: "Answered" },
  { waiting: "智能体在问你", asked: "提问于", answer: "你的回答", send: "回答", answered: "已回答：{answer}", expired: "问题已过期", run: "打开运行", closed: "已回答" },
);

export interface AskedQuestion {
  runId: string;
  questionId: string;
  question: string;
  choices: readonly string[];
  askedAt: number;
  status: "asked" | "answered" | "expired";
  answer?: string | undefined;
}

export function QuestionCard({ asked, showRun = false, title, className }: { asked: AskedQuestion; showRun?: boolean; /** Who asks. */ title?: string; className?: string }): ReactNode {
  const t = useText(texts);
  const id = useId();
  const { may } = useSession();
  const open = asked.status === "asked";
  return (
    <section tabIndex={0} aria-labelledby={id} data-question={asked.questionId} className={cn("flex min-w-0 flex-col gap-3 rounded-lg border bg-surface p-4 text-base", open ? "border-wait-line" : "border-line", className)}>
      {open ? (
        <header className="flex flex-wrap items-center gap-x-3 gap-y-1">
          <Badge tone="wait" icon={CircleHelp}>{title ?? t("waiting")}</Badge>
          <span className="text-sm text-muted">{t("asked")} <Time at={asked.askedAt} /></span>
        </header>
      ) : null}
      <p id={id} dir="auto" className={cn("whitespace-pre-wrap", open ? "text-chat" : "text-muted")}>{asked.question}</p>
      {open ? null : (
        <p className="flex items-center gap-2 text-muted">
          {asked.status === "expired" ? <TimerOff aria-hidden /> : <CircleCheck aria-hidden />}
          {asked.status === "expired" ? t("expired") : asked.answer === undefined ? t("closed") : t("answered", { answer: asked.answer })}
        </p>
      )}
      {open && may("runs.control") ? <AnswerForm asked={asked} /> : null}
      {showRun ? <RunLink run={asked.runId} className="w-fit text-sm text-accent-text underline underline-offset-2">{t("run")}</RunLink> : null}
    </section>
  );
}

function AnswerForm({ asked }: { asked: AskedQuestion }): ReactNode {
  const t = useText(texts);
  const queries = useQueryClient();
  const [answer, setAnswer] = useState("");
  const mutation = useMutation({
    mutationFn: (text: string) => answerRunQuestion({ path: { run_id: asked.runId, question_id: asked.questionId }, body: { answer: text } }),
    onSettled: () => queries.invalidateQueries({ queryKey: ["questions"] }),
  });
  const send = (text: string): void => {
    if (!mutation.isPending && !mutation.isSuccess && text.trim() !== "") mutation.mutate(text);
  };
  return (
    <form
      className="flex flex-col gap-2"
      onSubmit={(event) => {
        event.preventDefault();
        send(answer);
      }}
    >
      {asked.choices.length > 0 ? (
        <div className="flex flex-wrap gap-2">
          {asked.choices.map((choice, index) => (
            <Button key={index} className="h-auto min-h-8 max-w-full py-1 text-left whitespace-normal" disabled={mutation.isPending || mutation.isSuccess} onClick={() => send(choice)}>{choice}</Button>
          ))}
        </div>
      ) : (
        <div className="flex gap-2">
          <Input aria-label={t("answer")} placeholder={t("answer")} value={answer} onChange={(event) => setAnswer(event.target.value)} />
          <Button type="submit" kind="primary" busy={mutation.isPending} disabled={answer.trim() === "" || mutation.isSuccess}>{t("send")}</Button>
        </div>
      )}
      {mutation.error === null ? null : <ErrorNote error={mutation.error} />}
    </form>
  );
}
