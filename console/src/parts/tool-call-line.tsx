/** A tool call on one line that unfolds to its arguments, output and duration. */
import { ChevronRight, CircleAlert, CircleCheck, CircleHelp, LoaderCircle, Wrench } from "lucide-react";
import { ApiError } from "@bollard/client";
import { useState, type ReactNode } from "react";
import { useErrorText } from "@/i18n/errors";
import { useFormats } from "@/i18n/format";
import { catalogue, useText } from "@/i18n/i18n";
import { cn } from "@/ui/classes";
import { Code } from "@/ui/data";
import type { Call } from "./run-block";

const texts = catalogue(
  {
    arguments: "Arguments", output: "Output", none: "No output", running: "running", completed: "done", failed: "failed", rejected: "refused",
    unknown: "outcome unknown", toolError: "the tool reports an error", unknownHint: "The call began, but its end is not known. It may have had an effect.",
    ended: "not finished",
  },
  {
    arguments: "参数", output: "输出", none: "没有输出", running: "执行中", completed: "完成", failed: "失败", rejected: "已拒绝",
    unknown: "结果未知", toolError: "工具报告了错误", unknownHint: "调用已经开始，但结果未知，可能已经产生影响。",
    ended: "未完成",
  },
);
const PREVIEW_CHARACTERS = 120;

export function ToolCallLine({ call, live = false }: { call: Call; live?: boolean }): ReactNode {
  const t = useText(texts);
  const { duration } = useFormats();
  const [open, setOpen] = useState(false);
  const { word, icon, bad } = look(call, live);
  return (
    <details className="group/call min-w-0 rounded-md border border-line bg-surface text-base" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="flex min-h-8 list-none items-center gap-2 px-2.5 py-1 [&::-webkit-details-marker]:hidden">
        <Wrench aria-hidden className="text-muted" />
        <span className="font-mono text-sm whitespace-nowrap">{call.name}</span>
        <span className="min-w-0 flex-1 truncate font-mono text-sm text-muted">{preview(call.arguments)}</span>
        {call.durationMs === undefined ? null : <span className="text-sm whitespace-nowrap text-muted">{duration(call.durationMs)}</span>}
        <span className={cn("inline-flex items-center gap-1 text-sm whitespace-nowrap", bad ? "text-fail" : "text-muted")}>
          {icon}
          <span className={cn(call.status === "completed" && !bad && "sr-only")}>{t(word)}</span>
        </span>
        <ChevronRight aria-hidden className="text-muted transition-transform group-open/call:rotate-90" />
      </summary>
      {open ? <Details call={call} /> : null}
    </details>
  );
}

function Details({ call }: { call: Call }): ReactNode {
  const t = useText(texts);
  const output = shown(call.output);
  return (
    <div className="flex flex-col gap-2 border-t border-line p-2.5">
      {call.arguments === undefined ? null : <Part name={t("arguments")}><Code text={shown(call.arguments)} label={t("arguments")} /></Part>}
      {call.error === undefined ? null : <CallError error={call.error} unknown={call.status === "unknown"} />}
      {call.status === "completed" ? <Part name={t("output")}>{output === "" ? <p className="text-muted">{t("none")}</p> : <Code text={output} label={t("output")} />}</Part> : null}
    </div>
  );
}

function CallError({ error, unknown }: { error: NonNullable<Call["error"]>; unknown: boolean }): ReactNode {
  const t = useText(texts);
  const { message } = useErrorText(new ApiError({ code: error.code, message: error.message, details: error.details }, 0));
  return (
    <div>
      <p className="text-fail">{message} <code className="font-mono text-sm">{error.code}</code></p>
      {unknown ? <p className="text-sm text-muted">{t("unknownHint")}</p> : null}
    </div>
  );
}

function Part({ name, children }: { name: string; children: ReactNode }): ReactNode {
  return <div className="min-w-0"><p className="mb-1 text-sm text-muted">{name}</p>{children}</div>;
}

function look(call: Call, live: boolean): { word: "running" | "completed" | "failed" | "rejected" | "unknown" | "toolError" | "ended"; icon: ReactNode; bad: boolean } {
  if (call.status === "started") {
    return live ? { word: "running", icon: <LoaderCircle aria-hidden className="animate-spin text-accent" />, bad: false } : { word: "ended", icon: <CircleHelp aria-hidden />, bad: false };
  }
  if (call.status === "completed" && !call.isError) return { word: "completed", icon: <CircleCheck aria-hidden />, bad: false };
  if (call.status === "unknown") return { word: "unknown", icon: <CircleHelp aria-hidden className="text-unknown" />, bad: true };
  return { word: call.status === "completed" ? "toolError" : call.status, icon: <CircleAlert aria-hidden />, bad: true };
}

/** The values of the arguments on one line. */
export function preview(value: unknown): string {
  if (value === undefined || value === null) return "";
  const parts = typeof value === "object" ? Object.values(value) : [value];
  const line = parts.map((part) => (typeof part === "string" ? part : JSON.stringify(part))).join("  ").replaceAll(/\s+/g, " ");
  return line.length > PREVIEW_CHARACTERS ? `${line.slice(0, PREVIEW_CHARACTERS)}…` : line;
}

function shown(value: unknown): string {
  if (value === undefined || value === null) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}
