import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { wordOf } from "@/parts/address";
import { root } from "@/root";

export const pluginRoutes = [
  createRoute({ getParentRoute: () => root, path: "/plugins", validateSearch: wordOf("install"), component: lazyRouteComponent(() => import("./plugins-page")) }),
  createRoute({ getParentRoute: () => root, path: "/plugins/$author/$name", component: lazyRouteComponent(() => import("./plugin-page")) }),
] as const;
