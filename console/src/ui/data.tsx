/** Pieces that show data: times, ids, code, tables, facts. */
import { useEffect, useState, type ReactNode } from "react";
import { useFormats } from "@/i18n/format";
import { catalogue, useText } from "@/i18n/i18n";
import { cn } from "./classes";
import { CopyButton } from "./feedback";

const texts = catalogue({ copyId: "Copy {id}", copied: "Copied" }, { copyId: "复制 {id}", copied: "已复制" });
const REFRESH_MS = 10_000;
/** A time that is this close to now is not “in 2 seconds”: the clocks of host and reader differ a little. */
const SKEW_S = 5;

/** A relative time that stays true, with the absolute one on hover. `at` is in seconds. */
export function Time({ at, className }: { at: number; className?: string }): ReactNode {
  const { ago, absolute } = useFormats();
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  return <time dateTime={new Date(at * 1000).toISOString()} title={absolute(at)} className={cn("whitespace-nowrap", className)}>{ago(at, Math.abs(at - now) < SKEW_S ? Math.max(now, at) : now)}</time>;
}

const ID_CHARACTERS = 14;

/** An id, shortened in the middle; a click copies the whole. */
export function Id({ id, className }: { id: string; className?: string }): ReactNode {
  const t = useText(texts);
  const [copied, setCopied] = useState(false);
  const short = id.length <= ID_CHARACTERS ? id : `${id.slice(0, 8)}…${id.slice(-4)}`;
  return (
    <button
      type="button"
      title={id}
      aria-label={t("copyId", { id })}
      className={cn("rounded-sm font-mono text-sm whitespace-nowrap text-muted hover:text-text", className)}
      onClick={() => void navigator.clipboard.writeText(id).then(() => setCopied(true))}
      onBlur={() => setCopied(false)}
    >
      {copied ? t("copied") : short}
    </button>
  );
}

/** A sentence of ours or of the host. Names in backquotes are code. */
export function InlineCode({ text }: { text: string }): ReactNode {
  return text.split("`").map((part, index) => (index % 2 === 1 ? <code key={index} className="rounded-sm bg-raised px-1 font-mono text-sm">{part}</code> : part));
}

/** Text as it is, in mono, in its own box. Nothing in it is interpreted. */
export function Code({ text, className, wrap = true, label }: { text: string; className?: string; wrap?: boolean; label?: string }): ReactNode {
  return (
    <div className={cn("group relative rounded-md border border-line bg-raised", className)}>
      <pre tabIndex={0} aria-label={label} className={cn("max-h-96 overflow-auto p-3 pr-10 font-mono text-sm scroll-thin", wrap ? "whitespace-pre-wrap" : "whitespace-pre")}>{text}</pre>
      <CopyButton text={text} className="absolute top-1 right-1 size-7" />
    </div>
  );
}

export function Json({ value, className }: { value: unknown; className?: string }): ReactNode {
  return <Code text={JSON.stringify(value, null, 2)} {...(className === undefined ? {} : { className })} />;
}

/** A list of names and values. Absent values are left out. */
export function Facts({ items, className }: { items: readonly (readonly [ReactNode, ReactNode])[]; className?: string }): ReactNode {
  return (
    <dl className={cn("grid grid-cols-[minmax(7rem,auto)_1fr] gap-x-4 gap-y-1.5", className)}>
      {items.map(([name, value], index) =>
        value === undefined || value === null || value === "" ? null : (
          <div key={index} className="contents">
            <dt className="text-muted">{name}</dt>
            <dd className="min-w-0 overflow-clip [overflow-clip-margin:4px]">{value}</dd>
          </div>
        ),
      )}
    </dl>
  );
}

export interface Column<T> {
  name: ReactNode;
  /** The class of header and cells: widths, alignment, and `max-sm:hidden` for what a phone does not need. */
  className?: string;
  cell: (row: T) => ReactNode;
}

/** A table for lists that fit into memory. Rows may be links: put the link into the first cell. */
export function Table<T>({ rows, columns, id, label, isSelected }: { rows: readonly T[]; columns: readonly Column<T>[]; id: (row: T) => string; label: string; isSelected?: (row: T) => boolean }): ReactNode {
  return (
    <div className="overflow-x-auto rounded-lg border border-line bg-surface scroll-thin">
      <table aria-label={label} className="w-full text-left">
        <thead className="border-b border-line text-sm text-muted">
          <tr>
            {columns.map((column, index) => (
              <th key={index} scope="col" className={cn("px-3 py-2 font-medium whitespace-nowrap", column.className)}>{column.name}</th>
            ))}
          </tr>
        </thead>
        <tbody className="divide-y divide-line wrap-break-word">
          {rows.map((row) => (
            <tr key={id(row)} className={cn("hover:bg-raised/60", isSelected?.(row) === true && "bg-accent-soft")}>
              {columns.map((column, index) => (
                <td key={index} className={cn("px-3 py-2 align-middle", index === 0 && "min-w-28 wrap-anywhere [&>button]:align-top", column.className)}>{column.cell(row)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function Card({ title, actions, className, children }: { title?: ReactNode; actions?: ReactNode; className?: string; children: ReactNode }): ReactNode {
  return (
    <section aria-label={typeof title === "string" ? title : undefined} className={cn("rounded-lg border border-line bg-surface", className)}>
      {title === undefined ? null : (
        <header className="flex min-h-11 flex-wrap items-center gap-2 border-b border-line px-4 py-1.5">
          <h2 className="min-w-0 flex-1 overflow-clip">{title}</h2>
          {actions}
        </header>
      )}
      <div className="p-4">{children}</div>
    </section>
  );
}
