import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { only } from "@/parts/address";
import { root } from "@/root";

/** The address holds the conversation and the agent: a link shows the same page. */
export interface ChatSearch {
  conversation?: string;
  thread?: string;
  bot?: string;
  agent?: string;
}

const NAMES = ["conversation", "thread", "bot", "agent"] as const;

export const chatRoutes = [
  createRoute({
    getParentRoute: () => root,
    path: "/chat",
    validateSearch: only((search): ChatSearch => {
      const found: ChatSearch = {};
      for (const name of NAMES) {
        const value = search[name];
        if (typeof value === "string" || typeof value === "number") found[name] = String(value);
      }
      return found;
    }),
    component: lazyRouteComponent(() => import("./chat-page")),
  }),
] as const;
