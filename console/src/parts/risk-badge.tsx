import type { ReactNode } from "react";
import { catalogue, useText } from "@/i18n/i18n";
import { Badge, type Tone } from "@/ui/badge";

const riskTexts = catalogue(
  { risk: "Risk: {risk}", low: "low", medium: "medium", high: "high", critical: "critical" },
  { risk: "风险：{risk}", low: "低", medium: "中", high: "高", critical: "极高" },
);
type Risk = Exclude<keyof (typeof riskTexts)["en"], "risk">;
const tones: Record<Risk, Tone> = { low: "neutral", medium: "neutral", high: "wait", critical: "fail" };

export function isHigh(risk: string | null | undefined): boolean {
  return risk === "high" || risk === "critical";
}

/** The risk of a call, in words; `bare` beside a label that says what it is. */
export function RiskBadge({ risk, bare = false, className = "" }: { risk: string; bare?: boolean; className?: string }): ReactNode {
  const t = useText(riskTexts);
  const known = risk in tones ? (risk as Risk) : undefined;
  const word = known === undefined ? risk : t(known);
  return <Badge tone={known === undefined ? "neutral" : tones[known]} className={className}>{bare ? word : t("risk", { risk: word })}</Badge>;
}
