import { Link } from "@tanstack/react-router";
import { Anchor, Cpu, MessageSquare, Radio, type LucideIcon } from "lucide-react";
import type { ReactNode } from "react";
import { useSession } from "@/api/session";
import { useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { Command } from "@/ui/feedback";
import { texts } from "./texts";

/** The overview of a host that has not done anything: what this is, and the first thing to do. */
export function Welcome(): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  return (
    <div className="flex flex-col gap-4">
      <section className="flex flex-col items-start gap-4 rounded-lg border border-line bg-surface p-8 max-sm:p-5">
        <Anchor aria-hidden className="size-8! text-accent" />
        <div>
          <h2 className="text-xl">{t("welcome")}</h2>
          <p className="mt-1 max-w-prose text-muted">{may("runs.create") ? t("welcomeWords") : t("viewerWords")}</p>
        </div>
        {may("runs.create") ? (
          <div className="flex max-w-full flex-wrap items-center gap-3">
            <Button asChild kind="primary" size="lg"><Link to="/chat"><MessageSquare aria-hidden />{t("talk")}</Link></Button>
            <Command text='bollard chat --agent demo --message "hello"' />
          </div>
        ) : null}
      </section>
      <ul className="grid gap-4 md:grid-cols-3">
        {may("runs.create") ? <Step icon={MessageSquare} title={t("talkTitle")} action={t("talk")} to="/chat">{t("talkWords")}</Step> : null}
        {may("models.write") ? <Step icon={Cpu} title={t("modelTitle")} action={t("modelAction")} to="/models">{t("modelWords")}</Step> : null}
        {may("channels.read") ? <Step icon={Radio} title={t("connectTitle")} action={t("connectAction")} to="/resources/channels">{t("connectWords")}</Step> : null}
      </ul>
    </div>
  );
}

function Step({ icon: Icon, title, action, to, children }: { icon: LucideIcon; title: string; action: string; to: string; children: ReactNode }): ReactNode {
  return (
    <li className="flex flex-col items-start gap-2 rounded-lg border border-line bg-surface p-4">
      <Icon aria-hidden className="text-muted" />
      <h3>{title}</h3>
      <p className="flex-1 text-muted">{children}</p>
      <Link to={to} className="font-medium text-accent-text underline-offset-2 hover:underline">{action} →</Link>
    </li>
  );
}
