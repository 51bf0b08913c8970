import { listApprovals, type Overview } from "@bollard/client";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useSession } from "@/api/session";
import { useFormats } from "@/i18n/format";
import { locale, useLanguage, useText } from "@/i18n/i18n";
import { Sparkline } from "@/parts/sparkline";
import { cn } from "@/ui/classes";
import { askedPerHour } from "./asked";
import { texts } from "./texts";

type Hour = Overview["hours"][number];
export const runsOf = (hour: Hour): number => hour.completed + hour.failed + hour.timeout + hour.cancelled + hour.active;
export const failedOf = (hour: Hour): number => hour.failed + hour.timeout;
export const sum = (hours: readonly Hour[], of: (hour: Hour) => number): number => hours.reduce((all, hour) => all + of(hour), 0);

/** Four numbers, each with its last 24 hours. Of decisions, these are the hours in which they were asked for. */
export function Numbers({ overview }: { overview: Overview }): ReactNode {
  const t = useText(texts);
  const { duration, number } = useFormats();
  const { language } = useLanguage();
  const { hours, first_delta: first, waiting } = overview;
  const [runs, failed] = [sum(hours, runsOf), sum(hours, failedOf)];
  const people = (waiting.approvals ?? 0) + waiting.questions;
  const share = new Intl.NumberFormat(locale(language), { style: "percent", maximumFractionDigits: 1 }).format(runs === 0 ? 0 : failed / runs);
  const asked = useAsked(hours);
  const known = asked?.every((count) => count !== null) === true;
  const waits = people > 0 ? t("decide") : t("nothingWaits");
  const active = sum(hours, (hour) => hour.active);
  return (
    <ul className="grid grid-cols-2 gap-3 lg:grid-cols-4">
      <Figure name={t("runs")} value={number(runs)} note={t("activeNow", { count: active })} to="/runs?time=24h" values={hours.map(runsOf)} />
      <Figure name={t("failed")} value={number(failed)} note={t("failedShare", { share })} to="/runs?status=failed&time=24h" values={hours.map(failedOf)} tone={failed > 0 ? "text-fail" : undefined} />
      <Figure name={t("waiting")} value={number(people)} note={known ? `${waits} · ${t("asked", { count: asked.reduce((all, count) => all + count, 0) })}` : waits} to="/approvals" values={asked} tone={people > 0 ? "text-wait" : undefined} />
      <Figure name={t("first")} value={first.p95_ms === null ? "–" : duration(first.p95_ms)} note={first.runs === 0 ? t("noFirst") : t("sampled", { count: first.runs })} to="/runs?time=24h" values={hours.map((hour) => hour.first_delta.p95_ms)} />
    </ul>
  );
}

const APPROVALS = 100;

/** The consents that were asked for in each hour, for those who may read them. */
function useAsked(hours: readonly Hour[]): (number | null)[] | undefined {
  const { may } = useSession();
  const { data } = useQuery({ queryKey: ["approvals", "asked"], queryFn: () => listApprovals({ query: { limit: APPROVALS } }), enabled: may("approvals.read") });
  return data === undefined ? undefined : askedPerHour(hours, data);
}

function Figure({ name, value, note, to, values, tone }: { name: string; value: string; note: string; to: string; values: readonly (number | null)[] | undefined; tone?: string | undefined }): ReactNode {
  return (
    <li className="relative flex min-w-0 flex-col rounded-lg border border-line bg-surface p-4 hover:bg-raised/40">
      <Link to={to} className="text-sm text-muted after:absolute after:inset-0">{name}</Link>
      <span className={cn("mt-1 text-[1.75rem] leading-9 font-semibold", tone)}>{value}</span>
      <span className={cn("text-sm", tone ?? "text-muted")}>{note}</span>
      {values === undefined ? null : <Sparkline values={values} className={cn("mt-3 h-6 w-full", tone ?? "text-accent/60")} />}
    </li>
  );
}
