import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { only } from "@/parts/address";
import { root } from "@/root";
import { auditSearch } from "./search";

export const auditRoutes = [
  createRoute({ getParentRoute: () => root, path: "/audit", validateSearch: only(auditSearch), component: lazyRouteComponent(() => import("./audit-page")) }),
] as const;
