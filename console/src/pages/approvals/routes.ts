import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { only } from "@/parts/address";
import { root } from "@/root";

const STATES = ["granted", "denied", "expired", "used"] as const;
export type DecidedState = (typeof STATES)[number];
export const decidedStates: readonly DecidedState[] = STATES;

export interface ApprovalSearch {
  view?: "history";
  state?: DecidedState;
  /** The request that is open. */
  approval?: string;
}

export const approvalRoutes = [
  createRoute({
    getParentRoute: () => root,
    path: "/approvals",
    validateSearch: only((search): ApprovalSearch => {
      const state = STATES.find((each) => each === search.state);
      return {
        ...(search.view === "history" ? { view: "history" } : {}),
        ...(state === undefined ? {} : { state }),
        ...(typeof search.approval === "string" ? { approval: search.approval } : {}),
      };
    }),
    component: lazyRouteComponent(() => import("./approvals-page")),
  }),
] as const;
