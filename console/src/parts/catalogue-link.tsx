import type { CatalogueItem } from "@bollard/client";
import { Link } from "@tanstack/react-router";
import { LibraryBig } from "lucide-react";
import type { ReactNode } from "react";
import { useSession } from "@/api/session";
import { catalogue, useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";

const texts = catalogue({ open: "Open catalogue", noModel: "Find agents without a model" }, { open: "打开目录", noModel: "查找无需模型的智能体" });

/** The way to the catalogue: items of one kind, or plugins that need no model. */
export function CatalogueLink({ kind, withoutModel = false }: { kind: CatalogueItem["kind"]; withoutModel?: boolean }): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  if (!may("plugins.read")) return null;
  const search = { kind, ...(withoutModel ? { search: "no model" } : {}) };
  return <Button asChild><Link to="/catalogue" search={search}><LibraryBig aria-hidden />{t(withoutModel ? "noModel" : "open")}</Link></Button>;
}
