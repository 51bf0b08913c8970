import type { ReactNode } from "react";
import { useLanguage, useText } from "@/i18n/i18n";
import { CatalogueLink } from "@/parts/catalogue-link";
import { Button } from "@/ui/button";
import { Empty } from "@/ui/feedback";
import type { Agents } from "./agents";
import { chatTexts } from "./texts";

/** First messages that show what an agent can do. The demo understands its own words. */
const SAY = {
  demo: { en: ["help", "count 10", "file", "slow"], zh: ["帮助", "数数 10", "文件", "慢"] },
  other: { en: ["What can you do?", "Which tools do you have?"], zh: ["你能做什么？", "你有哪些工具？"] },
} as const;

export function Welcome({ agents, agent, onSay }: { agents: Agents; agent: string; onSay: ((text: string) => void) | undefined }): ReactNode {
  const t = useText(chatTexts);
  const { language } = useLanguage();
  if (!agents.isLoading && agents.agents.length === 0) {
    return <div className="grid flex-1 place-items-center p-6"><Empty title={t("noAgents")} action={<CatalogueLink kind="plugin" />} command="bollard catalogue list --kind plugin">{t("noAgentsHint")}</Empty></div>;
  }
  const words = SAY[agent === "demo" ? "demo" : "other"][language];
  return (
    <div className="grid min-h-0 flex-1 place-items-center overflow-y-auto p-6">
      <div className="flex max-w-md flex-col items-center gap-3 text-center">
        <h2 className="text-xl!">{t("empty", { agent: agents.name(agent) })}</h2>
        {onSay === undefined ? null : (
          <>
            <p className="text-muted">{t("emptyHint")}</p>
            <div className="flex flex-wrap justify-center gap-2">
              {words.map((word) => <Button key={word} onClick={() => onSay(word)}>{word}</Button>)}
            </div>
          </>
        )}
      </div>
    </div>
  );
}
