import type { ReactNode } from "react";
import { useText } from "@/i18n/i18n";
import { Badge } from "@/ui/badge";
import { tagTexts } from "./texts";

export function Tag({ name }: { name: string }): ReactNode {
  const t = useText(tagTexts);
  return <Badge className="max-w-40">{isKnown(name) ? t(name) : name}</Badge>;
}

function isKnown(name: string): name is keyof typeof tagTexts.en {
  return Object.hasOwn(tagTexts.en, name);
}
