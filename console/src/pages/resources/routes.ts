import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { root } from "@/root";

export const resourceRoutes = [
  createRoute({ getParentRoute: () => root, path: "/resources/$kind", component: lazyRouteComponent(() => import("./resource-page")) }),
] as const;
