import { ask } from "@/api/request";
import { useMutation } from "@tanstack/react-query";
import { ArrowRight } from "lucide-react";
import { useState, type ReactNode } from "react";
import { useHostWords } from "@/i18n/errors";
import { useLanguage, useText } from "@/i18n/i18n";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Card } from "@/ui/data";
import { ErrorNote } from "@/ui/feedback";
import { Field, Input } from "@/ui/field";
import { texts } from "./texts";

interface Outcome {
  agent: string | null;
  steps: { key: string; text: string }[];
  decision: { kind: string } | null;
  refused: { code: string; message: string; hint: string; details: Record<string, unknown> } | null;
}
type Typed = Record<"source" | "type" | "conversation" | "actor" | "text", string>;

const NAMES = ["source", "type", "conversation", "actor", "text"] as const;
const DECISIONS = ["start", "steer", "queue", "interrupt", "reject"] as const;

/** Previews how an event would be routed, step by step. Nothing is written. */
export function Tester(): ReactNode {
  const t = useText(texts);
  const { language } = useLanguage();
  const [typed, setTyped] = useState<Typed>({ source: "api", type: "message.received", conversation: "", actor: "", text: "" });
  const preview = useMutation({
    mutationFn: () => {
      const [type = "user", id] = typed.actor.includes(":") ? typed.actor.split(/:(.*)/) : ["user", typed.actor];
      const given = Object.fromEntries((["source", "type", "conversation", "text"] as const).filter((name) => typed[name] !== "").map((name) => [name, typed[name]]));
      return ask<Outcome>("POST", "/api/v1/bindings/resolve", { body: { ...given, locale: language === "zh" ? "zh_Hans" : "en_US", ...(typed.actor === "" ? {} : { actor: { type, id } }) } });
    },
  });
  return (
    <Card title={t("tester")}>
      <p className="mb-3 text-muted">{t("testerAbout")}</p>
      <form
        className="flex flex-wrap items-end gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          preview.mutate();
        }}
      >
        {NAMES.map((name) => (
          <Field key={name} label={t(name)} className="min-w-36 flex-1">{(ids) => <Input {...ids} value={typed[name]} onChange={(event) => setTyped({ ...typed, [name]: event.target.value })} />}</Field>
        ))}
        <Button type="submit" busy={preview.isPending}>{t("try")}</Button>
      </form>
      <div aria-live="polite" className="mt-4">
        {preview.error === null ? null : <ErrorNote error={preview.error} />}
        {preview.data === undefined ? null : <Verdict outcome={preview.data} />}
      </div>
    </Card>
  );
}

function Verdict({ outcome }: { outcome: Outcome }): ReactNode {
  const t = useText(texts);
  const words = useHostWords();
  const { refused } = outcome;
  const decision = DECISIONS.find((kind) => kind === outcome.decision?.kind);
  return (
    <div className="flex flex-col gap-2">
      <p className="flex flex-wrap items-center gap-2 font-medium">
        <ArrowRight aria-hidden className="text-accent" />
        {outcome.agent === null ? t("nobody") : t("goes", { agent: outcome.agent })}
        {refused !== null ? <Badge tone="fail">{t("refused")}: {words.error(refused.code, refused.details, refused.message, refused.hint).message}</Badge> : decision === undefined ? null : <span className="font-normal text-muted">{t(`decision.${decision}`)}</span>}
      </p>
      {outcome.steps.length === 0 ? null : (
        <section aria-label={t("why")}>
          <ol className="list-decimal pl-6 text-muted">
            {outcome.steps.map((step, index) => <li key={index}>{step.text}</li>)}
          </ol>
        </section>
      )}
    </div>
  );
}
