import type { Runtime } from "@bollard/client";
import { CircleCheck, CirclePause, ShieldAlert, Unplug, type LucideIcon } from "lucide-react";
import type { ReactNode } from "react";
import { useText } from "@/i18n/i18n";
import { Badge, type Tone } from "@/ui/badge";
import { texts } from "./texts";

const looks: Record<Runtime["status"], [Tone, LucideIcon]> = {
  ready: ["quiet", CircleCheck],
  waiting: ["wait", ShieldAlert],
  away: ["wait", Unplug],
  disabled: ["neutral", CirclePause],
};

/** The state of a runtime as icon and word. */
export function RuntimeState({ status }: { status: string }): ReactNode {
  const t = useText(texts);
  if (!(status in looks)) return <Badge tone="unknown">{status}</Badge>;
  const known = status as Runtime["status"];
  const [tone, icon] = looks[known];
  return <Badge tone={tone} icon={icon}>{t(`runtime.${known}`)}</Badge>;
}
