/** The filters of the list: a search and one chip for each field. They live in the address. */
import { useQuery } from "@tanstack/react-query";
import { Check, ChevronDown, Search, X } from "lucide-react";
import { useEffect, useState, type ReactNode } from "react";
import { lists } from "@/api/lists";
import { useSession } from "@/api/session";
import { useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { runStateTexts } from "@/ui/badge";
import { cn } from "@/ui/classes";
import { Input } from "@/ui/field";
import { Menu } from "@/ui/overlay";
import { STATUSES, TIMES, type RunFilters } from "./filters";
import { listTexts } from "./list-texts";
import type { Origins } from "./origins";

type Choice = readonly [value: string, name: string];
const PAUSE_MS = 300;

export function FilterBar({ filters, origins, onChange }: { filters: RunFilters; origins: Origins; onChange: (filters: RunFilters) => void }): ReactNode {
  const t = useText(listTexts);
  const states = useText(runStateTexts);
  const { may } = useSession();
  const agents = useQuery({ ...lists.agents, enabled: may("agents.read") });
  const set = (name: keyof RunFilters) => (value: string | undefined): void => {
    const next = { ...filters };
    if (value === undefined) delete next[name]; // eslint-disable-line @typescript-eslint/no-dynamic-delete -- a known name of a copy
    else next[name] = value;
    onChange(next);
  };
  const names = (all: readonly (string | undefined)[]): Choice[] => [...new Set(all)].filter((each) => each !== undefined).sort().map((each) => [each, each]);
  const people = new Map(origins.actors);
  if (filters.actor !== undefined && !people.has(filters.actor)) people.set(filters.actor, filters.actor);
  return (
    <div role="search" className="flex flex-wrap items-center gap-2">
      <SearchField value={filters.text ?? ""} onChange={set("text")} />
      <Chip name={t("state")} value={filters.status} choices={STATUSES.map((each) => [each, states(each)])} onChange={set("status")} />
      <Chip name={t("agent")} value={filters.agent} choices={names([filters.agent, ...(agents.data?.items ?? []).map((each) => each.agent_id), ...origins.agents])} onChange={set("agent")} />
      <Chip name={t("source")} value={filters.source} choices={names([filters.source, ...origins.sources])} onChange={set("source")} />
      <Chip name={t("actor")} value={filters.actor} choices={[...people]} onChange={set("actor")} />
      <Chip name={t("time")} value={filters.time} choices={Object.keys(TIMES).map((each) => [each, t(each as "1h")])} onChange={set("time")} />
      {Object.keys(filters).length === 0 ? null : <Button kind="ghost" size="sm" onClick={() => onChange({})}><X aria-hidden />{t("clear")}</Button>}
    </div>
  );
}

function Chip({ name, value, choices, onChange }: { name: string; value: string | undefined; choices: readonly Choice[]; onChange: (value: string | undefined) => void }): ReactNode {
  const t = useText(listTexts);
  const chosen = choices.find(([id]) => id === value)?.[1] ?? value;
  const mark = (on: boolean): ReactNode => (on ? <Check aria-hidden /> : <span className="w-4 shrink-0" />);
  return (
    <Menu
      align="start"
      trigger={
        <Button size="sm" className={cn("rounded-full", value !== undefined && "border-accent/50 bg-accent-soft text-accent-text")}>
          <span className="max-w-48 truncate">{chosen === undefined ? name : `${name}: ${chosen}`}</span><ChevronDown aria-hidden className="size-3.5!" />
        </Button>
      }
      items={[
        { label: t("any"), icon: mark(value === undefined), checked: value === undefined, onSelect: () => onChange(undefined) },
        ...choices.map(([id, label]) => ({ label: <span className="max-w-72 truncate">{label}</span>, icon: mark(id === value), checked: id === value, onSelect: () => onChange(id) })),
      ]}
    />
  );
}

/** Searches when the typing pauses. */
function SearchField({ value, onChange }: { value: string; onChange: (value: string | undefined) => void }): ReactNode {
  const t = useText(listTexts);
  const [typed, setTyped] = useState(value);
  const [before, setBefore] = useState(value);
  if (before !== value) {
    setBefore(value); // the address changed: a link, or the filters were cleared
    setTyped(value);
  }
  const words = typed.trim();
  useEffect(() => {
    if (words === value) return;
    const timer = setTimeout(() => onChange(words === "" ? undefined : words), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [words, value, onChange]);
  return (
    <label className="relative min-w-44 flex-1 basis-56 sm:max-w-72">
      <Search aria-hidden className="absolute top-2 left-2.5 text-muted" />
      <Input type="search" aria-label={t("search")} placeholder={t("search")} maxLength={200} value={typed} onChange={(event) => setTyped(event.target.value)} className="pl-8" />
    </label>
  );
}
