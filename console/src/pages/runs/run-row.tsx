import type { AgentRun } from "@bollard/client";
import { Link, useNavigate } from "@tanstack/react-router";
import { Ellipsis } from "lucide-react";
import { memo, useEffect, useState, type ReactNode } from "react";
import { useSession } from "@/api/session";
import { useFormats } from "@/i18n/format";
import { useText } from "@/i18n/i18n";
import { count, object } from "@/parts/timeline/span";
import { RunState } from "@/ui/badge";
import { Button, type ButtonProps } from "@/ui/button";
import { cn } from "@/ui/classes";
import { Time } from "@/ui/data";
import { Menu } from "@/ui/overlay";
import { listTexts } from "./list-texts";
import { ACTIVE } from "./stop-run";

/** The columns of the head and of every row. A phone shows two lines: state, agent and time; then the message. */
export const columns =
  "grid items-center gap-x-3 px-3 grid-cols-[auto_minmax(0,1fr)_2rem] sm:grid-cols-[11rem_minmax(0,1fr)_6rem_2rem] md:grid-cols-[11rem_minmax(0,1fr)_7rem_6rem_2rem] xl:grid-cols-[11rem_minmax(0,1fr)_7rem_6rem_6rem_6rem_4.5rem_4.5rem_2rem]";
/** On a phone cells have places of their own; beyond it they follow each other. */
const cell = "min-w-0 truncate";

export const RunRow = memo(function RunRow({ run, arrived, onStop }: { run: AgentRun; arrived: boolean; onStop: (id: string) => void }): ReactNode {
  const t = useText(listTexts);
  const { cost } = useFormats();
  const price = count(object(run.usage).cost);
  return (
    <div className={cn(columns, "relative h-full border-b border-line/60 hover:bg-raised/60", arrived && "animate-arrive")}>
      <span role="cell" className="min-w-0 max-sm:row-start-1"><RunState state={run.status} className="max-w-full" /></span>
      <span role="cell" className={cn(cell, "max-sm:col-span-2 max-sm:row-start-2")}>
        <Link to="/runs/$runId" params={{ runId: run.run_id }} title={run.input ?? undefined} className="after:absolute after:inset-0">
          {run.input ?? <span className="text-muted">{t("noInput")}</span>}
        </Link>
      </span>
      <span role="cell" className={cn(cell, "text-muted max-md:hidden")} title={run.agent_id}>{run.agent_id}</span>
      <span role="cell" className={cn(cell, "text-muted max-xl:hidden")} title={run.source ?? undefined}>{run.source}</span>
      <span role="cell" className={cn(cell, "text-muted max-xl:hidden")}>{run.actor?.actor_name ?? run.actor?.actor_id}</span>
      <span role="cell" className="min-w-0 text-sm text-muted max-sm:row-start-1 max-sm:flex max-sm:justify-end"><span className="truncate sm:hidden">{run.agent_id}</span><span className="whitespace-pre sm:hidden"> · </span><Time at={run.created_at} /></span>
      <span role="cell" className="text-right text-sm text-muted max-xl:hidden"><Took run={run} /></span>
      <span role="cell" className="text-right text-sm text-muted max-xl:hidden">{price === undefined ? "" : cost(price)}</span>
      <span role="cell" className="relative max-sm:row-span-2 max-sm:row-start-1 max-sm:col-start-3"><RowMenu run={run} onStop={onStop} /></span>
    </div>
  );
});

/** A menu is made when it is opened first: rows come and go while the list scrolls, and few menus are opened. */
function RowMenu({ run, onStop }: { run: AgentRun; onStop: (id: string) => void }): ReactNode {
  const t = useText(listTexts);
  const [opened, setOpened] = useState(false);
  const open = (): void => setOpened(true);
  const label = t("actionsOf", { name: run.input ?? run.run_id });
  if (opened) return <OpenedMenu run={run} label={label} onStop={onStop} />;
  return <MenuButton label={label} aria-haspopup="menu" aria-expanded={false} onClick={open} onKeyDown={(event) => event.key === "ArrowDown" ? open() : undefined} />;
}

function MenuButton({ label, ...rest }: ButtonProps & { label: string }): ReactNode {
  return <Button kind="ghost" size="icon" className="size-7" aria-label={label} {...rest}><Ellipsis aria-hidden /></Button>;
}

function OpenedMenu({ run, label, onStop }: { run: AgentRun; label: string; onStop: (id: string) => void }): ReactNode {
  const t = useText(listTexts);
  const { may } = useSession();
  const navigate = useNavigate();
  const chat: string = `/chat?${new URLSearchParams({ conversation: run.conversation_id ?? "", agent: run.agent_id }).toString()}`;
  const items = [
    { label: t("open"), onSelect: () => void navigate({ to: "/runs/$runId", params: { runId: run.run_id } }) },
    ...(run.conversation_id == null || !may("runs.create") ? [] : [{ label: t("openConversation"), onSelect: () => void navigate({ to: chat }) }]),
    ...(ACTIVE.has(run.status) && may("runs.control") ? [{ label: t("stop"), danger: true, onSelect: () => onStop(run.run_id) }] : []),
  ];
  return <Menu defaultOpen trigger={<MenuButton label={label} />} items={items} />;
}

const TICK_MS = 1_000;

/** How long a run took; of one that goes on, how long until now. */
function Took({ run }: { run: AgentRun }): ReactNode {
  const { duration } = useFormats();
  const [now, setNow] = useState(() => Date.now() / 1_000);
  const active = ACTIVE.has(run.status);
  useEffect(() => {
    if (!active) return;
    const timer = setInterval(() => setNow(Date.now() / 1_000), TICK_MS);
    return () => clearInterval(timer);
  }, [active]);
  const end = run.finished_at ?? (active ? Math.max(now, run.created_at) : run.updated_at);
  return duration((end - run.created_at) * 1_000);
}
