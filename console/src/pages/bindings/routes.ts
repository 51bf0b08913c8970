import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { root } from "@/root";

export const bindingRoutes = [
  createRoute({ getParentRoute: () => root, path: "/bindings", component: lazyRouteComponent(() => import("./bindings-page")) }),
] as const;
