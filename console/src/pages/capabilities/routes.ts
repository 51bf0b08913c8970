import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { only } from "@/parts/address";
import { root } from "@/root";
import { capabilitySearch } from "./groups";

export const capabilityRoutes = [
  createRoute({ getParentRoute: () => root, path: "/capabilities", validateSearch: only(capabilitySearch), component: lazyRouteComponent(() => import("./capabilities-page")) }),
] as const;
