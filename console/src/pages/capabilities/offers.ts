import { explainAgentCapabilities } from "@bollard/client";
import { lists, type Listing } from "@/api/lists";
import type { Language } from "@/i18n/i18n";
import type { Offer } from "./groups";

/** The query of what the workspace offers, or of what one agent would get in a run that begins now. */
export function offersOf(agent: string | undefined, language: Language): { queryKey: string[]; queryFn: () => Promise<Listing<Offer>> } {
  return {
    queryKey: ["capabilities", agent ?? "", language],
    queryFn: async () => {
      if (agent === undefined) return lists.capabilities.queryFn();
      const { items } = await explainAgentCapabilities({ path: { agent_id: agent }, query: { locale: language === "zh" ? "zh_Hans" : "en_US" } });
      return { items, isWhole: true };
    },
  };
}
