import type { CatalogueItem } from "@bollard/client";
import { CircleArrowUp, CircleCheck } from "lucide-react";
import type { ReactNode } from "react";
import { useText } from "@/i18n/i18n";
import { Badge } from "@/ui/badge";
import { texts } from "./texts";

/** Whether the catalogue has another version than the one a person installed. */
export function hasUpdate({ installed, version }: CatalogueItem): boolean {
  return installed?.origin === "installed" && installed.version !== version;
}

/** Whether the workspace has the item; nothing if it has not. */
export function InstalledBadge({ item }: { item: CatalogueItem }): ReactNode {
  const t = useText(texts);
  if (item.installed === null) return null;
  if (hasUpdate(item)) return <Badge tone="accent" icon={CircleArrowUp}>{t("update", { version: item.version })}</Badge>;
  return <Badge tone="quiet" icon={CircleCheck}>{t(item.installed.origin === "builtin" ? "included" : "installed")}</Badge>;
}
