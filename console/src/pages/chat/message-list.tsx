/** The turns of a conversation, drawn as far as they are visible. Older pages load when the top comes near, and the view does not jump. */
import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDown } from "lucide-react";
import { useCallback, useEffect, useLayoutEffect, useRef, useState, type ReactNode } from "react";
import { useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { chatTexts } from "./texts";

const ESTIMATE_PX = 180;
const OVERSCAN = 4;
/** Closer to the end than this counts as reading the newest message. */
const END_PX = 80;
const TOP_PX = 800;

export interface MessageListProps {
  /** The key of each row. */
  rows: readonly string[];
  row: (index: number, settled: boolean) => ReactNode;
  hasOlder: boolean;
  loadingOlder: boolean;
  onOlder: () => void;
  /** What stands above the first message. */
  head: ReactNode;
  /** How many messages the person has sent: another one scrolls to the end. */
  sent: number;
}

export function MessageList({ rows, row, hasOlder, loadingOlder, onOlder, head, sent }: MessageListProps): ReactNode {
  const t = useText(chatTexts);
  const scroller = useRef<HTMLDivElement>(null);
  const [atEnd, setAtEnd] = useState(true);
  // eslint-disable-next-line react-hooks/incompatible-library -- the compiler is not in use, so nothing is memoised wrongly
  const list = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ESTIMATE_PX,
    getItemKey: (index) => rows[index] ?? index,
    overscan: OVERSCAN,
    anchorTo: "end", // older messages above the view do not move it
  });
  const toEnd = useCallback(() => {
    const element = scroller.current;
    if (element !== null) element.scrollTop = element.scrollHeight;
  }, []);
  // While a person reads the newest message, the end stays in view; after they scroll up, nothing moves.
  const total = list.getTotalSize();
  const follows = useRef(true);
  useLayoutEffect(() => {
    follows.current = true;
  }, [sent]);
  useLayoutEffect(() => {
    if (follows.current) toEnd();
  }, [toEnd, total, rows.length, sent]);
  useEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    let top = element.scrollTop;
    const look = (): void => {
      const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight <= END_PX;
      if (isAtEnd) follows.current = true;
      else if (element.scrollTop < top) follows.current = false;
      top = element.scrollTop;
      setAtEnd(isAtEnd || follows.current);
      if (hasOlder && !loadingOlder && !follows.current && element.scrollTop < TOP_PX) onOlder();
    };
    const resized = new ResizeObserver(() => {
      if (follows.current) toEnd();
    });
    resized.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      resized.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, [hasOlder, loadingOlder, onOlder, toEnd]);
  return (
    <div className="relative min-h-0 flex-1">
      <div ref={scroller} role="log" aria-live="off" aria-label={t("messages")} tabIndex={0} className="h-full overflow-y-auto outline-none scroll-thin [overflow-anchor:none]">
        {hasOlder ? <p role="status" className="py-2 text-center text-sm text-muted">{loadingOlder ? t("loadingOlder") : "\u00a0"}</p> : head}
        <div className="relative w-full" style={{ height: total }}>
          {list.getVirtualItems().map((item) => (
            <div key={item.key} ref={list.measureElement} data-index={item.index} className="absolute inset-x-0 top-0" style={{ transform: `translateY(${item.start}px)` }}>
              {row(item.index, !list.isScrolling)}
            </div>
          ))}
        </div>
      </div>
      {atEnd ? null : (
        <Button className="absolute bottom-3 left-1/2 -translate-x-1/2 rounded-full shadow-overlay" onClick={() => {
            follows.current = true;
            toEnd();
          }}>
          <ArrowDown aria-hidden />
          {t("toNewest")}
        </Button>
      )}
    </div>
  );
}
