/** The pages by path. Each folder in `pages` lists its routes; each page is a chunk of its own, loaded when it is opened. */
import { createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { PageFailed, PageMissing } from "./frame/failure";
import { agentRoutes } from "./pages/agents/routes";
import { approvalRoutes } from "./pages/approvals/routes";
import { auditRoutes } from "./pages/audit/routes";
import { bindingRoutes } from "./pages/bindings/routes";
import { capabilityRoutes } from "./pages/capabilities/routes";
import { catalogueRoutes } from "./pages/catalogue/routes";
import { chatRoutes } from "./pages/chat/routes";
import { knowledgeRoutes } from "./pages/knowledge/routes";
import { mcpServerRoutes } from "./pages/mcp-servers/routes";
import { modelRoutes } from "./pages/models/routes";
import { overviewRoutes } from "./pages/overview/routes";
import { pluginRoutes } from "./pages/plugins/routes";
import { resourceRoutes } from "./pages/resources/routes";
import { runRoutes } from "./pages/runs/routes";
import { scheduleRoutes } from "./pages/schedules/routes";
import { settingRoutes } from "./pages/settings/routes";
import { webhookRoutes } from "./pages/webhooks/routes";
import { root } from "./root";

const more = createRoute({ getParentRoute: () => root, path: "/more", component: lazyRouteComponent(() => import("./frame/more")) });

export const router = createRouter({
  routeTree: root.addChildren([
    ...overviewRoutes, ...chatRoutes, ...runRoutes, ...approvalRoutes, ...agentRoutes, ...bindingRoutes, ...modelRoutes, ...catalogueRoutes, ...pluginRoutes,
    ...mcpServerRoutes, ...knowledgeRoutes, ...scheduleRoutes, ...webhookRoutes, ...auditRoutes, ...capabilityRoutes,
    ...settingRoutes, ...resourceRoutes, more,
  ]),
  defaultErrorComponent: PageFailed,
  defaultNotFoundComponent: PageMissing,
  defaultPreload: "intent",
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
