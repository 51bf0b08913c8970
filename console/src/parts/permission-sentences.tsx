import { ShieldCheck, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";
import { InlineCode } from "@/ui/data";
import { isHigh, RiskBadge } from "./risk-badge";

export interface PermissionSentence {
  policy?: string;
  risk?: string | null;
  text: string;
}

/** What an agent or a run may do, in the sentences of the host. A risky one has a badge. `onOpen` shows the policy that makes a sentence true. */
export function PermissionSentences({ items, onOpen }: { items: readonly PermissionSentence[]; onOpen?: (policy: string) => void }): ReactNode {
  return (
    <ul className="flex flex-col gap-2">
      {items.map(({ text, risk, policy }, index) => (
        <li key={index} className="flex items-start gap-2">
          {isHigh(risk) ? <TriangleAlert aria-hidden className="mt-0.5 text-wait" /> : <ShieldCheck aria-hidden className="mt-0.5 text-muted" />}
          <span title={policy} className="min-w-0">
            {policy === undefined || onOpen === undefined ? <InlineCode text={text} /> : <button type="button" className="text-left underline-offset-2 hover:underline" onClick={() => onOpen(policy)}><InlineCode text={text} /></button>}
            {risk === undefined || risk === null || risk === "low" ? null : <RiskBadge risk={risk} className="ml-2" />}
          </span>
        </li>
      ))}
    </ul>
  );
}
