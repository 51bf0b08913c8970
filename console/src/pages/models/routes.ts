import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { wordOf } from "@/parts/address";
import { root } from "@/root";

export const modelRoutes = [
  createRoute({ getParentRoute: () => root, path: "/models", validateSearch: wordOf("open", "add"), component: lazyRouteComponent(() => import("./models-page")) }),
] as const;
