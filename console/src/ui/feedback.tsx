/** Empty, loading and error: what a page shows when it has no data. */
import { ClipboardCopy, Check, TriangleAlert } from "lucide-react";
import { ApiError } from "@bollard/client";
import { Fragment, useEffect, useState, type ReactNode } from "react";
import { useErrorText } from "@/i18n/errors";
import { catalogue, useText } from "@/i18n/i18n";
import { Button } from "./button";
import { cn } from "./classes";

const texts = catalogue(
  { copy: "Copy", copied: "Copied", copyDetails: "Copy details", retry: "Try again", loading: "Loading", orRun: "Or run this in a terminal:", run: "Run this in a terminal:" },
  { copy: "复制", copied: "已复制", copyDetails: "复制详情", retry: "重试", loading: "加载中", orRun: "也可以在终端运行：", run: "在终端运行：" },
);

const COPIED_MS = 1_500;

export function CopyButton({ text, label, className }: { text: string; label?: string; className?: string }): ReactNode {
  const t = useText(texts);
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), COPIED_MS);
    return () => clearTimeout(timer);
  }, [copied]);
  const name = copied ? t("copied") : label ?? t("copy");
  return (
    <Button
      kind="ghost"
      size={label === undefined ? "icon" : "sm"}
      className={className}
      aria-label={name}
      title={name}
      onClick={() => {
        void navigator.clipboard.writeText(text).then(() => setCopied(true));
      }}
    >
      {copied ? <Check aria-hidden /> : <ClipboardCopy aria-hidden />}
      {label === undefined ? null : name}
    </Button>
  );
}

/** Sentence, hint, code, and the details to copy. The rest of the page keeps working. */
export function ErrorNote({ error, onRetry, className }: { error: unknown; onRetry?: (() => void) | undefined; className?: string }): ReactNode {
  const t = useText(texts);
  const { message, hint, code } = useErrorText(error);
  const details = error instanceof ApiError ? { code, message: error.message, hint: error.hint, status: error.status, details: error.details } : { message: String(error) };
  return (
    <div role="alert" className={cn("flex gap-3 rounded-lg border border-fail/40 bg-fail-soft p-3", className)}>
      <TriangleAlert aria-hidden className="mt-0.5 text-fail" />
      <div className="min-w-0 flex-1 overflow-clip [overflow-clip-margin:4px]">
        <p className="font-medium">{message}</p>
        {hint === undefined ? null : <p className="text-muted">{hint}</p>}
        <div className="mt-1 flex flex-wrap items-center gap-2">
          <code className="font-mono text-sm text-muted">{code}</code>
          <CopyButton text={JSON.stringify(details, null, 2)} label={t("copyDetails")} />
          {onRetry === undefined ? null : <Button size="sm" onClick={onRetry}>{t("retry")}</Button>}
        </div>
      </div>
    </div>
  );
}

/** What a page is for, the one action that fills it, and the command that does the same. */
export function Empty({ title, children, action, command }: { title: string; children?: ReactNode; action?: ReactNode; command?: string }): ReactNode {
  const t = useText(texts);
  return (
    <div className="flex flex-col items-center gap-3 rounded-lg border border-dashed border-line-strong/50 px-6 py-12 text-center">
      <h2 className="max-w-full overflow-clip">{title}</h2>
      {children === undefined ? null : <p className="max-w-[min(65ch,100%)] overflow-clip text-muted">{children}</p>}
      {action}
      {command === undefined ? null : (
        <div className="flex max-w-full flex-col items-center gap-1 text-sm text-muted">
          <span>{t(action === undefined ? "run" : "orRun")}</span>
          <Command text={command} />
        </div>
      )}
    </div>
  );
}

export function Command({ text }: { text: string }): ReactNode {
  return (
    <span className="inline-flex max-w-full items-center gap-1 rounded-md border border-line bg-raised py-0.5 pr-0.5 pl-2.5 font-mono text-sm text-text">
      {/* a line breaks between words, and not after the dashes of an option */}
      <code className="min-w-0 overflow-clip text-left">{text.split(" ").map((word, index) => <Fragment key={index}>{index === 0 ? "" : " "}<span className="inline-block max-w-full wrap-anywhere">{word}</span></Fragment>)}</code>
      <CopyButton text={text} className="size-7" />
    </span>
  );
}

const SKELETON_MS = 150;

/** Bars in the shape of the list to come, shown after a moment so that fast answers do not flicker. */
export function Skeleton({ rows = 5, className }: { rows?: number; className?: string }): ReactNode {
  const t = useText(texts);
  const [shown, setShown] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setShown(true), SKELETON_MS);
    return () => clearTimeout(timer);
  }, []);
  return (
    <div role="status" aria-label={t("loading")} className={cn("flex flex-col gap-2", className)}>
      {shown ? Array.from({ length: rows }, (_, row) => <div key={row} className="h-9 rounded-md bg-raised" style={{ opacity: 1 - row / (rows + 1) }} />) : null}
    </div>
  );
}
