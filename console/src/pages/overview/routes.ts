import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { root } from "@/root";

export const overviewRoutes = [
  createRoute({ getParentRoute: () => root, path: "/", component: lazyRouteComponent(() => import("./overview-page")) }),
] as const;
