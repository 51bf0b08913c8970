import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { only } from "@/parts/address";
import { root } from "@/root";
import { catalogueSearch } from "./search";

export const catalogueRoutes = [
  createRoute({ getParentRoute: () => root, path: "/catalogue", validateSearch: only(catalogueSearch), component: lazyRouteComponent(() => import("./catalogue-page")) }),
] as const;
