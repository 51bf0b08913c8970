import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { root } from "@/root";

export const webhookRoutes = [
  createRoute({ getParentRoute: () => root, path: "/webhooks", component: lazyRouteComponent(() => import("./webhooks-page")) }),
] as const;
