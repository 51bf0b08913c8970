/** The steps of a run as a tree, each with a bar on one axis of time. It shows ten thousand steps as quickly as ten. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { ChevronDown, ChevronRight } from "lucide-react";
import { memo, useCallback, useEffect, useMemo, useRef, useState, type CSSProperties, type KeyboardEvent, type ReactNode } from "react";
import { useFormats } from "@/i18n/format";
import { useText } from "@/i18n/i18n";
import { cn } from "@/ui/classes";
import { place, rowsOf, ticks, type Row } from "./flatten";
import { barColour, icons, kindTexts, tone } from "./looks";
import type { Span } from "./span";

const ROW_PX = 32;
const TICKS = 4;
/** The columns of the head and of every row. In a narrow box the bar is a line under the name. */
const columns = "grid grid-cols-[minmax(0,1fr)_5.5rem] items-center gap-3 px-3 @lg:grid-cols-[minmax(12rem,4fr)_minmax(0,5fr)_5.5rem]";

export interface WaterfallProps {
  spans: readonly Span[];
  /** Changes when spans have changed in place. */
  version: number;
  from: number;
  until: number;
  /** The words of a row beside its kind. */
  nameOf: (span: Span) => string;
  selected: string | undefined;
  onSelect: (id: string) => void;
  /** Enter on the selected row. */
  onOpen?: (() => void) | undefined;
  className?: string;
}

export function Waterfall({ spans, version, from, until, nameOf, selected, onSelect, onOpen, className }: WaterfallProps): ReactNode {
  const t = useText(kindTexts);
  const [collapsed, setCollapsed] = useState<ReadonlySet<string>>(new Set());
  // eslint-disable-next-line react-hooks/exhaustive-deps -- spans change in place; `version` says when
  const rows = useMemo(() => rowsOf(spans, collapsed), [spans, collapsed, version]);
  const box = useRef<HTMLDivElement>(null);
  // eslint-disable-next-line react-hooks/incompatible-library -- the page is built without the compiler that this concerns
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => box.current, estimateSize: () => ROW_PX, overscan: 12, getItemKey: (index) => rows[index]?.span.id ?? index });
  const at = rows.findIndex((row) => row.span.id === selected);
  const found = at >= 0;
  useEffect(() => {
    if (found) virtual.scrollToIndex(at, { align: "auto" });
    // eslint-disable-next-line react-hooks/exhaustive-deps -- only a selection scrolls, not rows that come in above it
  }, [selected, found]);
  const toggle = useCallback((id: string, open: boolean): void => {
    setCollapsed((before) => {
      const next = new Set(before);
      if (open) next.delete(id);
      else next.add(id);
      return next;
    });
  }, []);
  const press = (event: KeyboardEvent): void => {
    const row = rows[at];
    const page = Math.max(1, Math.floor((box.current?.clientHeight ?? ROW_PX) / ROW_PX) - 1);
    const moves: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1, PageDown: at + page, PageUp: at - page };
    const to = moves[event.key];
    if (to !== undefined) {
      const target = rows[Math.min(rows.length - 1, Math.max(0, to))];
      if (target !== undefined) onSelect(target.span.id);
    } else if (event.key === "ArrowRight" && row?.expanded === false) toggle(row.span.id, true);
    else if (event.key === "ArrowLeft" && row?.expanded === true) toggle(row.span.id, false);
    else if (event.key === "ArrowLeft" && row !== undefined) {
      const above = rows.slice(0, at).findLast((each) => each.depth < row.depth);
      if (above !== undefined) onSelect(above.span.id);
    } else if (event.key === "Enter" && row !== undefined) onOpen?.();
    else return;
    event.preventDefault();
  };
  return (
    <div className={cn("@container flex min-h-0 flex-col", className)}>
      <Axis wholeMs={(until - from) * 1_000} />
      <div
        ref={box}
        role="tree"
        tabIndex={0}
        aria-label={t("tree")}
        aria-activedescendant={found ? `step-${rows[at]?.span.id ?? ""}` : undefined}
        onKeyDown={press}
        className="min-h-0 flex-1 overflow-y-auto outline-offset-[-2px] scroll-thin"
      >
        <div role="presentation" className="relative" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => {
            const row = rows[item.index];
            return row === undefined ? null : (
              <Step key={item.key} row={row} name={nameOf(row.span)} top={item.start} from={from} until={until} end={row.span.end} state={row.span.state} selected={item.index === at} onSelect={onSelect} onToggle={toggle} />
            );
          })}
        </div>
      </div>
    </div>
  );
}

function Axis({ wholeMs }: { wholeMs: number }): ReactNode {
  const t = useText(kindTexts);
  const { duration } = useFormats();
  const marks = ticks(wholeMs, TICKS);
  return (
    <div className={cn(columns, "h-8 shrink-0 border-b border-line text-sm text-muted")}>
      <span>{t("step")}</span>
      <span aria-hidden className="relative h-full @max-lg:hidden">
        {marks.map((ms) => (
          <span key={ms} className="absolute inset-y-0 flex items-center border-l border-line pl-1 text-xs whitespace-nowrap" style={{ left: `${wholeMs <= 0 ? 0 : (ms / wholeMs) * 100}%` }}>
            {ms / Math.max(wholeMs, 1) > 0.9 ? null : ms === 0 ? "0" : duration(ms)}
          </span>
        ))}
      </span>
      <span className="text-right">{t("took")}</span>
    </div>
  );
}

interface StepProps {
  row: Row;
  name: string;
  top: number;
  from: number;
  until: number;
  /** Of the span, which changes in place. */
  end: number | undefined;
  state: Span["state"];
  selected: boolean;
  onSelect: (id: string) => void;
  onToggle: (id: string, open: boolean) => void;
}

const Step = memo(function Step({ row, name, top, from, until, end, state, selected, onSelect, onToggle }: StepProps): ReactNode {
  const t = useText(kindTexts);
  const { duration } = useFormats();
  const { span, depth, expanded } = row;
  const Icon = icons[span.kind];
  const { left, width } = place({ start: span.start, end }, from, until);
  const took = ((end ?? until) - span.start) * 1_000;
  const said = span.fallbackOf === undefined ? name : `${name} (${t("fallback", { name: span.fallbackOf })})`;
  return (
    <div
      role="treeitem"
      id={`step-${span.id}`}
      aria-level={depth + 1}
      aria-posinset={row.position}
      aria-setsize={row.siblings}
      aria-selected={selected}
      aria-expanded={expanded}
      aria-label={`${t(span.kind)} ${said}, ${t(state)}`}
      onClick={() => onSelect(span.id)}
      className={cn(columns, "absolute inset-x-0 top-0 h-8 cursor-pointer border-b border-line/50 hover:bg-raised/70", selected && "bg-accent-soft hover:bg-accent-soft")}
      style={{ transform: `translateY(${top}px)` }}
    >
      <span className="flex min-w-0 items-center gap-2" style={{ paddingLeft: depth * 16 }}>
        {expanded === undefined ? <span className="w-4 shrink-0" /> : <Toggle open={expanded} onToggle={(open) => onToggle(span.id, open)} />}
        <Icon aria-hidden className={cn(tone(span), state === "open" && span.kind !== "run" && "animate-pulse-dot")} />
        <span className={cn("truncate", tone(span))} title={said}>
          <span className={said === "" ? "" : "text-muted"}>{t(span.kind)}</span> {said}
        </span>
      </span>
      <span aria-hidden className="relative h-full @max-lg:absolute @max-lg:inset-x-3 @max-lg:bottom-0 @max-lg:h-1">
        <span
          className={cn("absolute top-1/2 h-2.5 left-[min(var(--at),calc(100%-3px))] min-w-[3px] -translate-y-1/2 rounded-[2px] @max-lg:h-0.5", barColour(span), span.kind === "run" && "h-1", width === 0 && "w-[3px]")}
          style={{ "--at": `${left}%`, width: `${width}%` } as CSSProperties}
        />
      </span>
      <span className="text-right text-sm whitespace-nowrap text-muted">{took < 0.5 ? "" : duration(took)}</span>
    </div>
  );
});

/** The keyboard opens and closes with the arrows; this is for pointers. */
function Toggle({ open, onToggle }: { open: boolean; onToggle: (open: boolean) => void }): ReactNode {
  const t = useText(kindTexts);
  const Icon = open ? ChevronDown : ChevronRight;
  return (
    <span
      aria-hidden
      title={t(open ? "collapse" : "expand")}
      className="grid size-4 shrink-0 place-items-center rounded-sm text-muted hover:bg-pressed"
      onClick={(event) => {
        event.stopPropagation();
        onToggle(!open);
      }}
    >
      <Icon />
    </span>
  );
}
