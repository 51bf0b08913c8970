/** Settings: the pages of what can be saved, the own account, and the host. */
import { Link } from "@tanstack/react-router";
import { ChevronRight } from "lucide-react";
import type { ReactNode } from "react";
import { useSession, type Right } from "@/api/session";
import { useText } from "@/i18n/i18n";
import { Card } from "@/ui/data";
import { Page } from "@/ui/page";
import { AccountCard, LinkCard, PasswordCard } from "./account";
import { HostCard } from "./host-card";
import { PersonDataCard } from "./person-data";
import { SessionsCard } from "./sessions";
import { texts } from "./texts";

type Kind = "users" | "keys" | "workspaces" | "actors" | "secrets" | "files" | "skills" | "conversations" | "channels" | "bots" | "subscriptions" | "runtimes";

const groups: readonly { name: "people" | "things" | "links"; kinds: readonly (readonly [Kind, Right])[] }[] = [
  { name: "people", kinds: [["users", "users.read"], ["keys", "keys.read"], ["actors", "users.read"], ["workspaces", "workspaces.read"]] },
  { name: "things", kinds: [["secrets", "secrets.read"], ["files", "files.read"], ["skills", "skills.read"], ["conversations", "conversations.read"]] },
  { name: "links", kinds: [["channels", "channels.read"], ["bots", "channels.read"], ["subscriptions", "subscriptions.read"], ["runtimes", "plugins.read"]] },
];

export default function SettingsPage(): ReactNode {
  const t = useText(texts);
  const { may, session } = useSession();
  return (
    <Page title={t("title")}>
      <div className="grid gap-4 lg:grid-cols-3">
        {groups.map((group) => (
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
