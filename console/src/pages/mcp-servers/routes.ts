import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { wordOf } from "@/parts/address";
import { root } from "@/root";

export const mcpServerRoutes = [
  createRoute({ getParentRoute: () => root, path: "/mcp-servers", validateSearch: wordOf("add"), component: lazyRouteComponent(() => import("./mcp-servers-page")) }),
] as const;
