import type { McpServer } from "@bollard/client";
import { CircleAlert, CircleCheck, CirclePause, LoaderCircle, LogIn, type LucideIcon } from "lucide-react";
import type { ReactNode } from "react";
import { useHostWords } from "@/i18n/errors";
import { useText } from "@/i18n/i18n";
import { Badge, type Tone } from "@/ui/badge";
import { texts } from "./texts";

const looks: Record<McpServer["status"], [Tone, LucideIcon]> = {
  connected: ["quiet", CircleCheck],
  connecting: ["accent", LoaderCircle],
  waiting: ["fail", CircleAlert],
  needs_login: ["wait", LogIn],
  disabled: ["neutral", CirclePause],
};

export function ServerState({ status }: { status: McpServer["status"] }): ReactNode {
  const t = useText(texts);
  const [tone, icon] = looks[status];
  return <Badge tone={tone} icon={icon} className={tone === "accent" ? "[&_svg]:animate-spin" : ""}>{t(status)}</Badge>;
}

/** Why a server is not connected, and what to do. */
export function ServerProblem({ server, problem, details, hint }: { server?: string | undefined; problem: string; details: unknown; hint: string }): ReactNode {
  const words = useHostWords();
  if (problem === "") return null;
  return (
    <div role="alert" className="rounded-md border border-fail/40 bg-fail-soft p-3 wrap-anywhere">
      <p>{words.problem(problem, details)}</p>
      {hint === "" ? null : <p className="text-muted">{words.remedy(hint, { server, ...(details as object) })}</p>}
    </div>
  );
}
