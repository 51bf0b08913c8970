import { createRootRoute } from "@tanstack/react-router";
import { PageFailed, PageMissing } from "./frame/failure";
import { Shell } from "./frame/shell";

/** The frame. Pages are its children. */
export const root = createRootRoute({ component: Shell, errorComponent: PageFailed, notFoundComponent: PageMissing });
