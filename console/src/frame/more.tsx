import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useText } from "@/i18n/i18n";
import { Page } from "@/ui/page";
import { useEntries } from "./entries";
import { pageNames } from "./navigation";

/** Every page, for screens without the rail. */
export default function MorePage(): ReactNode {
  const t = useText(pageNames);
  return (
    <Page title={t("more")}>
      <ul className="grid grid-cols-2 gap-2">
        {useEntries().map((entry) => (
          <li key={entry.name}>
            <Link to={entry.path} className="flex items-center gap-2.5 rounded-lg border border-line bg-surface p-3"><entry.icon aria-hidden />{t(entry.name)}</Link>
          </li>
        ))}
      </ul>
    </Page>
  );
}
