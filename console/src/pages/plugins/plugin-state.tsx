import { Ban, CircleAlert, CircleCheck, CircleDashed, CirclePause, LoaderCircle, Unplug, type LucideIcon } from "lucide-react";
import type { ReactNode } from "react";
import { useText } from "@/i18n/i18n";
import { Badge, type Tone } from "@/ui/badge";
import { texts } from "./texts";

const looks = {
  idle: ["quiet", CircleDashed],
  starting: ["accent", LoaderCircle],
  ready: ["quiet", CircleCheck],
  away: ["wait", Unplug],
  restarting: ["accent", LoaderCircle],
  quarantined: ["fail", CircleAlert],
  disabled: ["neutral", CirclePause],
  unusable: ["fail", Ban],
} satisfies Record<string, [Tone, LucideIcon]>;

/** The state of a plugin as icon and word. */
export function PluginState({ status }: { status: string }): ReactNode {
  const t = useText(texts);
  if (!(status in looks)) return <Badge tone="unknown">{status}</Badge>;
  const known = status as keyof typeof looks;
  const [tone, icon] = looks[known];
  return <Badge tone={tone} icon={icon} className={tone === "accent" ? "[&_svg]:animate-spin" : ""} {...(known === "idle" ? { title: t("idleTip") } : {})}>{t(known)}</Badge>;
}
