import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { root } from "@/root";

export const scheduleRoutes = [
  createRoute({ getParentRoute: () => root, path: "/schedules", component: lazyRouteComponent(() => import("./schedules-page")) }),
] as const;
