import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { root } from "@/root";

export const modelRoutes = [
  createRoute({ getParentRoute: () => root, path: "/models", component: lazyRouteComponent(() => import("./models-page")) }),
] as const;
