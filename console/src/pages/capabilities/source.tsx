import { Check, CircleSlash } from "lucide-react";
import { useState, type ReactNode } from "react";
import { useText } from "@/i18n/i18n";
import { useHostWords } from "@/i18n/errors";
import { RiskBadge } from "@/parts/risk-badge";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { cn } from "@/ui/classes";
import { Facts, Id } from "@/ui/data";
import { FLOW, sourceName, type Offer } from "./groups";
import { texts } from "./texts";


/** The capabilities of one source. A long one may be folded: its rows are made when a person opens it. */
export function Source({ source, offers, folded }: { source: string; offers: readonly Offer[]; folded: boolean }): ReactNode {
  const t = useText(texts);
  const [open, setOpen] = useState(false);
  const name = sourceName(source, t);
  const shown = open || !folded;
  return (
    <section aria-label={name} className="rounded-lg border border-line bg-surface">
      <header className={cn("flex min-h-11 flex-wrap items-center gap-x-3 px-4 py-1.5", shown && "border-b border-line")}>
        <h2 className="min-w-0 flex-1 wrap-anywhere">{name}</h2>
        <span className="text-sm text-muted">{t("count", { count: offers.length })}</span>
        {folded ? <Button size="sm" kind="ghost" aria-expanded={open} aria-label={t(open ? "hideOf" : "showOf", { name })} onClick={() => setOpen(!open)}>{t(open ? "hide" : "show")}</Button> : null}
      </header>
      {shown ? <ul className="divide-y divide-line">{offers.map((offer) => <Row key={offer.id} offer={offer} />)}</ul> : null}
    </section>
  );
}

function Row({ offer }: { offer: Offer }): ReactNode {
  const t = useText(texts);
  return (
    <li className="grid gap-x-6 gap-y-1.5 px-4 py-3 md:grid-cols-[minmax(0,1fr)_minmax(0,20rem)]">
      <div className="min-w-0">
        <p className="flex flex-wrap items-center gap-x-2 gap-y-1">
          <span className="font-medium">{offer.name ?? offer.id}</span>
          <Given offer={offer} />
        </p>
        {offer.description === undefined ? null : <p className="line-clamp-2 text-muted" title={offer.description}>{offer.description}</p>}
        <Reasons offer={offer} />
        {offer.source === undefined ? null : <Details offer={offer} />}
      </div>
      {offer.risk === undefined ? null : (
        <div className="flex flex-col gap-1 text-sm">
          <p className="flex flex-wrap items-center gap-x-3 gap-y-1">
            <RiskBadge risk={offer.risk} />
            {offer.approval === undefined ? null : <span className={offer.approval === "always" ? "text-wait" : "text-muted"}>{t(`approval.${offer.approval}`)}</span>}
            {offer.effects === undefined ? null : <span className="text-muted">{t(`effects.${offer.effects}`)}</span>}
          </p>
          <p className="text-muted">{flowWords(offer, t)}</p>
        </div>
      )}
    </li>
  );
}

function Given({ offer }: { offer: Offer }): ReactNode {
  const t = useText(texts);
  if (offer.available === false) return <Badge tone="wait" icon={CircleSlash}>{t("unavailable")}</Badge>;
  if (offer.present === undefined) return null;
  return offer.present ? <Badge tone="accent" icon={Check}>{t("gets")}</Badge> : <Badge tone="wait" icon={CircleSlash}>{t("missing")}</Badge>;
}

function Reasons({ offer }: { offer: Offer }): ReactNode {
  const t = useText(texts);
  const words = useHostWords();
  const unavailable = offer.reason === undefined ? undefined : words.problem(offer.reason, offer.reason_details);
  const reasons = [...(unavailable === undefined ? [] : [unavailable]), ...(offer.reasons ?? []).map((reason) => (reason.problem === undefined ? reason.text : t("absent", { thing: reason.thing ?? "", problem: words.problem(reason.problem, reason.problem_details) })))];
  if (reasons.length === 0) return null;
  return <ul aria-label={t("why")} className="mt-1 list-disc pl-5 text-sm text-muted">{reasons.map((reason, index) => <li key={index}>{reason}</li>)}</ul>;
}

function Details({ offer }: { offer: Offer }): ReactNode {
  const t = useText(texts);
  const facts = [
    [t("id"), <code key="id" className="font-mono">{offer.id}</code>],
    [t("version"), offer.version === undefined ? undefined : <Id key="version" id={offer.version} />],
    [t("digest"), offer.definition_sha256 === undefined ? undefined : <Id key="digest" id={offer.definition_sha256} />],
    [t("operations"), offer.operations?.join(", ")],
  ] as const;
  return (
    <details className="mt-1 text-sm">
      <summary className="text-muted">{t("details")}</summary>
      <Facts items={facts} className="mt-1" />
    </details>
  );
}

function flowWords(offer: Offer, t: (key: (typeof FLOW)[number] | "noFlow") => string): string {
  const set = FLOW.filter((bit) => offer.flow?.[bit] === true);
  return set.length === 0 ? t("noFlow") : set.map((bit) => t(bit)).join(" · ");
}
