import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { root } from "@/root";

export const knowledgeRoutes = [
  createRoute({ getParentRoute: () => root, path: "/knowledge", component: lazyRouteComponent(() => import("./knowledge-page")) }),
  createRoute({ getParentRoute: () => root, path: "/knowledge/$base", component: lazyRouteComponent(() => import("./base-page")) }),
] as const;
