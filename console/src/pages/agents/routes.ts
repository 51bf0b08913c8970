import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { wordOf } from "@/parts/address";
import { root } from "@/root";

export const agentRoutes = [
  createRoute({ getParentRoute: () => root, path: "/agents", validateSearch: wordOf("add"), component: lazyRouteComponent(() => import("./agents-page")) }),
  createRoute({
    getParentRoute: () => root,
    path: "/agents/$agentId",
    /** `runner` begins a new agent of this runner. */
    validateSearch: wordOf("runner"),
    component: lazyRouteComponent(() => import("./agent-page")),
  }),
] as const;
