import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { root } from "@/root";

export const settingRoutes = [
  createRoute({ getParentRoute: () => root, path: "/settings", component: lazyRouteComponent(() => import("./settings-page")) }),
] as const;
