import { timeSteps } from "@/parts/time-steps";
import type { Span } from "./span";

/** One line of the tree. */
export interface Row {
  span: Span;
  depth: number;
  /** Whether it has children that are shown or hidden. */
  expanded: boolean | undefined;
  position: number;
  siblings: number;
}

/** The lines of a tree, without the children of collapsed spans. */
export function rowsOf(spans: readonly Span[], collapsed: ReadonlySet<string>): Row[] {
  const rows: Row[] = [];
  const walk = (level: readonly Span[], depth: number): void => {
    level.forEach((span, index) => {
      const expanded = span.children.length === 0 ? undefined : !collapsed.has(span.id);
      rows.push({ span, depth, expanded, position: index + 1, siblings: level.length });
      if (expanded === true) walk(span.children, depth + 1);
    });
  };
  walk(spans, 0);
  return rows;
}

/** Where a bar lies on the axis, in percent. A moment has no width; the bar shows it as a mark. */
export function place(span: Pick<Span, "start" | "end">, from: number, until: number): { left: number; width: number } {
  const whole = Math.max(until - from, 0.001);
  const share = (at: number): number => Math.min(100, Math.max(0, ((at - from) / whole) * 100));
  const left = share(span.start);
  return { left, width: Math.max(0, share(span.end ?? until) - left) };
}

/** Round times of the axis, in milliseconds, at most `most` of them after zero. */
export function ticks(wholeMs: number, most: number): number[] {
  if (wholeMs <= 0) return [0];
  const longest = timeSteps.at(-1) ?? 1;
  const step = timeSteps.find((each) => wholeMs / each <= most) ?? longest * Math.ceil(wholeMs / longest / most);
  return Array.from({ length: Math.floor(wholeMs / step) + 1 }, (_, index) => index * step);
}
