/** Settings: the pages of what can be saved, the own account, and the host. */
import { Link } from "@tanstack/react-router";
import { ChevronRight } from "lucide-react";
import type { ReactNode } from "react";
import { useSession } from "@/api/session";
import { useText } from "@/i18n/i18n";
import { Card } from "@/ui/data";
import { Page } from "@/ui/page";
import { AccountCard, LinkCard, PasswordCard } from "./account";
import { HostCard } from "./host-card";
import { PersonDataCard } from "./person-data";
import { resourceGroups } from "./resource-groups";
import { SessionsCard } from "./sessions";
import { texts } from "./texts";

export default function SettingsPage(): ReactNode {
  const t = useText(texts);
  const { may, session } = useSession();
  return (
    <Page title={t("title")}>
      <div className="grid gap-4 lg:grid-cols-3">
        {resourceGroups.map((group) => (
          <Card key={group.name} title={t(group.name)}>
            <ul className="-my-2 divide-y divide-line">
              {group.kinds.filter(([, right]) => may(right)).map(([kind]) => (
                <li key={kind}>
                  <Link to="/resources/$kind" params={{ kind }} className="flex items-center py-2 hover:text-accent-text">
                    <span className="flex-1">{t(kind)}</span>
                    <ChevronRight aria-hidden className="text-muted" />
                  </Link>
                </li>
              ))}
            </ul>
          </Card>
        ))}
      </div>
      <div className="grid gap-4 lg:grid-cols-2">
        <AccountCard />
        {may("host.operate") ? <HostCard /> : null}
        {may("users.write") ? <PersonDataCard /> : null}
        <SessionsCard />
        {session.user_id === undefined ? null : <PasswordCard />}
        {session.user_id === undefined ? null : <LinkCard />}
      </div>
    </Page>
  );
}
