import type { Overview } from "@bollard/client";
import { ChartColumn, Table2 } from "lucide-react";
import { useState, type ReactNode } from "react";
import { useFormats } from "@/i18n/format";
import { locale, useLanguage, useText } from "@/i18n/i18n";
import { Plot } from "@/parts/plot";
import { timeSteps } from "@/parts/time-steps";
import { Button } from "@/ui/button";
import { Card, Table } from "@/ui/data";
import { mainCurrency } from "./currency";
import { failedOf } from "./numbers";
import { texts } from "./texts";

/** Steps of an axis that counts runs. */
const WHOLE = Array.from({ length: 9 }, (_, zeros) => [1, 2, 5].map((step) => step * 10 ** zeros)).flat();

export function Plots({ overview }: { overview: Overview }): ReactNode {
  const t = useText(texts);
  const { number, duration } = useFormats();
  const { hours } = overview;
  const times = hours.map((hour) => hour.at);
  return (
    <div className="grid gap-4 lg:grid-cols-2">
      <Plot
        title={t("outcomes")}
        kind="stack"
        times={times}
        format={number}
        unit={t("perHour")}
        steps={WHOLE}
        empty={t("noOutcomes")}
        series={[
          { name: t("completed"), colour: "--line-strong", values: hours.map((hour) => hour.completed) },
          { name: t("active"), colour: "--accent", values: hours.map((hour) => hour.active) },
          { name: t("cancelled"), colour: "--muted", texture: "dots", values: hours.map((hour) => hour.cancelled) },
          { name: t("failed"), colour: "--fail", texture: "stripes", values: hours.map(failedOf) },
        ]}
      />
      <Plot
        title={t("latency")}
        kind="band"
        times={times}
        format={duration}
        steps={timeSteps}
        empty={t("noLatency")}
        series={[
          { name: t("p95"), colour: "--accent", values: hours.map((hour) => hour.first_delta.p95_ms), dashed: true },
          { name: t("p50"), colour: "--accent-text", values: hours.map((hour) => hour.first_delta.p50_ms) },
        ]}
      />
      <Costs agents={overview.agents} />
    </div>
  );
}

type Agent = Overview["agents"][number];
const MOST = 8;

/** Who spent what. Where no model has a price, tokens stand in for money. */
function Costs({ agents }: { agents: readonly Agent[] }): ReactNode {
  const t = useText(texts);
  const { number } = useFormats();
  const { language } = useLanguage();
  const [table, setTable] = useState(false);
  const currency = mainCurrency(agents);
  const money = (value: number, code: string): string => new Intl.NumberFormat(locale(language), { style: "currency", currency: code, maximumFractionDigits: value !== 0 && Math.abs(value) < 0.01 ? 6 : 2 }).format(value);
  const of = (agent: Agent): number => (currency === undefined ? agent.tokens : agent.cost[currency] ?? 0);
  const show = (agent: Agent): string => (currency === undefined ? number(agent.tokens) : money(of(agent), currency));
  const spent = agents.filter((agent) => of(agent) > 0).sort((left, right) => of(right) - of(left));
  const most = of(spent[0] ?? { agent_id: "", runs: 0, failed: 0, tokens: 1, cost: {} });
  return (
    <Card
      title={t(currency === undefined ? "tokensBy" : "costs")}
      actions={agents.length === 0 ? null : <Button kind="ghost" size="sm" aria-pressed={table} onClick={() => setTable(!table)}>{table ? <ChartColumn aria-hidden /> : <Table2 aria-hidden />}{t(table ? "plot" : "table")}</Button>}
      className="min-w-0 lg:col-span-2"
    >
      {table ? (
        <Table
          rows={agents}
          id={(agent) => agent.agent_id}
          label={t(currency === undefined ? "tokensBy" : "costs")}
          columns={[
            { name: t("agent"), cell: (agent) => agent.agent_id },
            { name: t("runsColumn"), className: "text-right", cell: (agent) => number(agent.runs) },
            { name: t("failed"), className: "text-right", cell: (agent) => number(agent.failed) },
            { name: t("tokens"), className: "text-right", cell: (agent) => number(agent.tokens) },
            { name: t("cost"), className: "text-right", cell: (agent) => Object.entries(agent.cost).map(([code, value]) => money(value, code)).join(", ") },
          ]}
        />
      ) : spent.length === 0 ? <p className="grid h-24 place-items-center text-muted">{t("noCosts")}</p> : (
        <ul className="flex flex-col gap-2">
          {spent.slice(0, MOST).map((agent) => (
            <li key={agent.agent_id} className="grid grid-cols-[minmax(5rem,12rem)_minmax(0,1fr)_5rem] items-center gap-3">
              <span className="truncate" title={agent.agent_id}>{agent.agent_id}</span>
              <span aria-hidden className="h-3 rounded-sm bg-raised"><span className="block h-full min-w-0.5 rounded-sm bg-accent/70" style={{ width: `${(of(agent) / most) * 100}%` }} /></span>
              <span className="text-right text-sm text-muted">{show(agent)}</span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}
