import { endSession } from "@bollard/client";

/** Ends the session and loads the page anew, so that nothing of this person stays in it. */
export function signOut(): void {
  void endSession().finally(() => location.assign("/"));
}
