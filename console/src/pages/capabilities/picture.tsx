/** The graph as a picture: where capabilities come from, their risk and flow, and which agents would get them. */
import { useQueries, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { ArrowDownToLine, ArrowUpFromLine, Bot, ChevronDown, ChevronRight, LockKeyhole, Plug, type LucideIcon } from "lucide-react";
import { useMemo, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import { lists } from "@/api/lists";
import { useLanguage, useText } from "@/i18n/i18n";
import { isHigh, RiskBadge } from "@/parts/risk-badge";
import { cn } from "@/ui/classes";
import { Card } from "@/ui/data";
import { FLOW, sourceName, type Offer } from "./groups";
import { followed, neighbour, pictureOf, ROW_PX, type Picture, type PictureLine, type PictureRow, type Reach } from "./picture-layout";
import { offersOf } from "./offers";
import { texts } from "./texts";

/** Agents in the picture. A chosen one is always among them. */
const MOST_AGENTS = 16;
/** As wide as their columns. */
const BRANCH_PX = 32;
const LINE_PX = 96;
const columns = "grid grid-cols-[minmax(0,10fr)_32px_minmax(0,18fr)_96px_minmax(0,10fr)]";
const flowIcons: Record<(typeof FLOW)[number], LucideIcon> = { reads_private: LockKeyhole, brings_untrusted: ArrowDownToLine, sends_out: ArrowUpFromLine };
const RISKS = ["low", "medium", "high", "critical"] as const;

export function CapabilityPicture({ groups, agent }: { groups: readonly (readonly [source: string, offers: readonly Offer[]])[]; agent: string | undefined }): ReactNode {
  const t = useText(texts);
  const { reach, hidden } = useReach(agent);
  const [chosen, setChosen] = useState<ReadonlyMap<string, boolean>>(new Map());
  const picture = useMemo(() => pictureOf(groups.filter(([source]) => source !== "none"), reach, chosen), [groups, reach, chosen]);
  if (reach.length === 0 || picture.rows.length === 0) return null;
  return (
    <Card title={t("picture")}>
      <p className="mb-3 text-muted">{t("pictureAbout")}</p>
      <Graph picture={picture} pinned={agent === undefined ? undefined : `agent ${agent}`} onToggle={(source, open) => setChosen((before) => new Map(before).set(source, open))} />
      <ul aria-hidden className="mt-3 flex flex-wrap gap-x-4 gap-y-1 text-sm text-muted">
        {FLOW.map((bit) => <li key={bit} className="flex items-center gap-1.5"><FlowIcon bit={bit} />{t(bit)}</li>)}
        {picture.lines.some((line) => line.partial) ? <li className="flex items-center gap-1.5"><span className="w-5 border-t border-dashed border-line-strong" />{t("partly")}</li> : null}
      </ul>
      {hidden === 0 ? null : <p className="mt-2 text-sm text-muted">{t("moreAgents", { count: hidden })}</p>}
    </Card>
  );
}

/** What each agent would get in a run that begins now. */
function useReach(agent: string | undefined): { reach: readonly Reach[]; hidden: number } {
  const { language } = useLanguage();
  const agents = useQuery(lists.agents);
  const all = agents.data?.items.map((each) => each.agent_id) ?? [];
  const ids = [...new Set([...(agent === undefined ? [] : [agent]), ...all])].slice(0, MOST_AGENTS);
  const reach = useQueries({
    queries: ids.map((id) => offersOf(id, language)),
    combine: (answers) => ids.map((id, index): Reach => {
      const items = answers[index]?.data?.items;
      return { id, reaches: items === undefined ? undefined : new Set(items.filter((item) => item.present).map((item) => item.id)) };
    }),
  });
  return { reach, hidden: Math.max(0, all.length - ids.length) };
}

function Graph({ picture, pinned, onToggle }: { picture: Picture; pinned: string | undefined; onToggle: (source: string, open: boolean) => void }): ReactNode {
  const t = useText(texts);
  const navigate = useNavigate({ from: "/capabilities" });
  const { agent, find } = useSearch({ from: "/capabilities" });
  const box = useRef<HTMLDivElement>(null);
  const [pointed, setPointed] = useState<string>();
  const [focused, setFocused] = useState<string>();
  const lit = followed(picture, pointed ?? focused ?? pinned);
  const nodes = [...picture.sources, ...picture.rows, ...picture.agents];
  /** One stop of the tabulator; arrows move from there. */
  const stop = nodes.find((node) => node.key === focused)?.key ?? nodes[0]?.key;
  const press = (event: KeyboardEvent): void => {
    const to = focused === undefined ? undefined : neighbour(picture, focused, event.key);
    if (to === undefined) return;
    event.preventDefault();
    box.current?.querySelector<HTMLElement>(`[data-node="${CSS.escape(to)}"]`)?.focus();
  };
  const node = (key: string, top: number): Omit<NodeProps, "children" | "label"> => ({
    id: key, top, lit: lit.has(key), tabIndex: key === stop ? 0 : -1, onPoint: setPointed, onFocus: setFocused,
  });
  const toAgent = (id: string): void => void navigate({ search: { ...(id === agent ? {} : { agent: id }), ...(find === undefined ? {} : { find }) }, replace: true, resetScroll: false });
  return (
    <div ref={box} role="group" aria-label={t("picture")} onKeyDown={press} className="max-h-[70vh] overflow-y-auto scroll-thin">
      <div className={cn(columns, "sticky top-0 z-[1] bg-surface pb-2 text-sm text-muted")}>
        <span>{t("sources")}</span><span /><span>{t("title")}</span><span /><span>{t("agents")}</span>
      </div>
      <div className={columns} style={{ height: picture.height }}>
        <div className="relative">
          {picture.sources.map(({ key, source, count, open, top }) => (
            <Node key={key} {...node(key, top)} label={t("sourceLabel", { name: sourceName(source, t), count })} title={sourceName(source, t)} expanded={open} onAct={open === undefined ? undefined : () => onToggle(source, !open)}>
              {open === undefined ? <Plug aria-hidden className="text-muted" /> : open ? <ChevronDown aria-hidden className="text-muted" /> : <ChevronRight aria-hidden className="text-muted" />}
              <span className="truncate">{sourceName(source, t)}</span>
              <span className="ml-auto text-sm text-muted">{count}</span>
            </Node>
          ))}
        </div>
        <Lines lines={picture.branches} lit={lit} width={BRANCH_PX} height={picture.height} />
        <div className="relative">
          {picture.rows.map((row) => {
            const words = rowWords(row, picture, t);
            return <Node key={row.key} {...node(row.key, row.top)} label={words.label} title={words.title} onAct={row.kind === "folded" ? () => onToggle(row.source, true) : undefined}><RowContent row={row} name={words.name} /></Node>;
          })}
        </div>
        <Lines lines={picture.lines} lit={lit} width={LINE_PX} height={picture.height} />
        <div className="relative">
          {picture.agents.map(({ key, id, count, top }) => (
            <Node key={key} {...node(key, top)} label={t("agentLabel", { name: id, count: count ?? 0 })} title={id} pressed={id === agent} onAct={() => toAgent(id)}>
              <Bot aria-hidden className="text-muted" /><span className="truncate">{id}</span><span className="ml-auto text-sm text-muted">{count}</span>
            </Node>
          ))}
        </div>
      </div>
    </div>
  );
}

interface NodeProps {
  id: string;
  top: number;
  label: string;
  title?: string | undefined;
  lit: boolean;
  tabIndex: number;
  expanded?: boolean | undefined;
  pressed?: boolean;
  onPoint: (key: string | undefined) => void;
  onFocus: (key: string | undefined) => void;
  onAct?: (() => void) | undefined;
  children: ReactNode;
}

function Node({ id, top, label, title, lit, tabIndex, expanded, pressed, onPoint, onFocus, onAct, children }: NodeProps): ReactNode {
  return (
    <button
      type="button"
      data-node={id}
      aria-label={label}
      aria-expanded={expanded}
      aria-pressed={pressed}
      title={title}
      tabIndex={tabIndex}
      onPointerEnter={() => onPoint(id)}
      onPointerLeave={() => onPoint(undefined)}
      onFocus={() => onFocus(id)}
      onBlur={() => onFocus(undefined)}
      onClick={onAct}
      className={cn("absolute inset-x-0.5 flex items-center gap-1.5 rounded-md border px-2 text-left outline-offset-[-2px]", lit ? "border-accent bg-accent-soft" : "border-line bg-surface", onAct === undefined && "cursor-default")}
      style={{ top: top + 1, height: ROW_PX - 4 }}
    >
      {children}
    </button>
  );
}

/** What is lit is also thicker, so that it shows in grey. */
function Lines({ lines, lit, width, height }: { lines: readonly PictureLine[]; lit: ReadonlySet<string>; width: number; height: number }): ReactNode {
  const isLit = ({ from, to }: PictureLine): boolean => lit.has(from) && lit.has(to);
  const ordered = [...lines].sort((one, other) => Number(isLit(one)) - Number(isLit(other))); // lit ones are drawn on top
  return (
    <svg aria-hidden width={width} height={height} className="size-auto!" style={{ width, height }}>
      {ordered.map((line) => (
        <path
          key={`${line.from} ${line.to}`}
          d={`M0 ${line.y1} C ${width / 2} ${line.y1} ${width / 2} ${line.y2} ${width} ${line.y2}`}
          fill="none"
          strokeDasharray={line.partial ? "4 3" : undefined}
          className={isLit(line) ? "stroke-accent stroke-2" : lit.size > 0 ? "stroke-line" : "stroke-line-strong/60"}
        />
      ))}
    </svg>
  );
}

function RowContent({ row, name }: { row: PictureRow; name: string }): ReactNode {
  const risk = worst(row.offers);
  return (
    <>
      <span className={cn("truncate", row.kind !== "offer" && "text-muted")}>{name}</span>
      <span className="ml-auto flex shrink-0 items-center gap-1 text-muted">
        {flowOf(row.offers).map((bit) => <FlowIcon key={bit} bit={bit} />)}
        {isHigh(risk) ? <RiskBadge risk={risk ?? ""} bare /> : null}
      </span>
    </>
  );
}

function FlowIcon({ bit }: { bit: (typeof FLOW)[number] }): ReactNode {
  const Icon = flowIcons[bit];
  return <Icon aria-hidden className="size-3.5!" />;
}

function worst(offers: readonly Offer[]): Offer["risk"] {
  return RISKS.findLast((risk) => offers.some((offer) => offer.risk === risk));
}

function flowOf(offers: readonly Offer[]): (typeof FLOW)[number][] {
  return FLOW.filter((bit) => offers.some((offer) => offer.flow?.[bit] === true));
}

/** The picture in words: what a row is, what it does, and who gets it. */
function rowWords(row: PictureRow, { lines, agents }: Picture, t: ReturnType<typeof useText<keyof (typeof texts)["en"]>>): { name: string; label: string; title: string } {
  const name = row.kind === "offer" ? row.offers[0]?.name ?? row.offers[0]?.id ?? "" : t(row.kind === "rest" ? "rest" : "count", { count: row.offers.length });
  const risk = worst(row.offers);
  const facts = [risk === undefined ? undefined : t(`risk.${risk}`), ...flowOf(row.offers).map((bit) => t(bit))].filter((fact) => fact !== undefined);
  const reached = agents.filter((agent) => lines.some((line) => line.from === row.key && line.to === agent.key)).map((agent) => agent.id);
  const who = reached.length === 0 ? t("nobody") : t("reachedBy", { names: reached.join(", ") });
  return { name, label: `${name}: ${[...facts, who].join("; ")}`, title: [name, ...facts].join(" · ") };
}
