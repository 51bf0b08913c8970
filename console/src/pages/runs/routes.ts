import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { only, wordOf } from "@/parts/address";
import { root } from "@/root";
import { runFilters } from "./filters";

export const runRoutes = [
  createRoute({ getParentRoute: () => root, path: "/runs", validateSearch: only(runFilters), component: lazyRouteComponent(() => import("./runs-page")) }),
  createRoute({
    getParentRoute: () => root,
    path: "/runs/$runId",
    validateSearch: wordOf("at"),
    component: lazyRouteComponent(() => import("./run-page")),
  }),
] as const;
