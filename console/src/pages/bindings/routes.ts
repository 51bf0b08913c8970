import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { wordOf } from "@/parts/address";
import { root } from "@/root";

export const bindingRoutes = [
  createRoute({ getParentRoute: () => root, path: "/bindings", validateSearch: wordOf("open", "add"), component: lazyRouteComponent(() => import("./bindings-page")) }),
] as const;
