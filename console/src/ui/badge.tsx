import { Ban, CircleAlert, CircleCheck, CircleDashed, CircleHelp, CirclePause, LoaderCircle, TimerOff, type LucideIcon } from "lucide-react";
import type { ReactNode } from "react";
import { catalogue, useText } from "@/i18n/i18n";
import { cn } from "./classes";

export type Tone = "neutral" | "accent" | "wait" | "fail" | "unknown" | "quiet";

const tones: Record<Tone, string> = {
  neutral: "bg-raised text-text",
  accent: "bg-accent-soft text-accent-text",
  wait: "bg-wait-soft text-wait",
  fail: "bg-fail-soft text-fail",
  unknown: "bg-raised text-unknown",
  quiet: "text-muted",
};

/** A short word with a tone. State is never colour alone: the word says it, and often an icon. */
export function Badge({ tone = "neutral", icon: Icon, children, className, title }: { tone?: Tone; icon?: LucideIcon | undefined; children: ReactNode; className?: string; title?: string }): ReactNode {
  return (
    <span title={title} className={cn("inline-flex h-5 max-w-full items-center gap-1 rounded-sm text-sm whitespace-nowrap", tone !== "quiet" && "px-1.5", tones[tone], className)}>
      {Icon === undefined ? null : <Icon aria-hidden className="size-3.5!" />}
      <span className="self-baseline truncate leading-5">{children}</span>
    </span>
  );
}

export const runStateTexts = catalogue(
  {
    queued: "Queued", dispatching: "Starting", running: "Running", waiting: "Waiting for a person", completed: "Completed", failed: "Failed",
    cancelled: "Cancelled", timeout: "Timed out", unknown: "Unknown",
  },
  {
    queued: "排队中", dispatching: "启动中", running: "运行中", waiting: "等待人工处理", completed: "已完成", failed: "失败",
    cancelled: "已取消", timeout: "已超时", unknown: "未知",
  },
);
type State = keyof (typeof runStateTexts)["en"];
const looks: Record<State, [Tone, LucideIcon]> = {
  queued: ["quiet", CircleDashed],
  dispatching: ["accent", CircleDashed],
  running: ["accent", LoaderCircle],
  waiting: ["wait", CirclePause],
  completed: ["quiet", CircleCheck],
  failed: ["fail", CircleAlert],
  cancelled: ["quiet", Ban],
  timeout: ["fail", TimerOff],
  unknown: ["unknown", CircleHelp],
};

/** The state of a run as icon and word. */
export function RunState({ state, className }: { state: string; className?: string }): ReactNode {
  const t = useText(runStateTexts);
  const known: State = state in looks ? (state as State) : "unknown";
  const [tone, icon] = looks[known];
  return <Badge tone={tone} icon={icon} className={cn(known === "running" && "[&_svg]:animate-spin", className)}>{t(known)}</Badge>;
}
