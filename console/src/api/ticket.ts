import { ApiError, client } from "@bollard/client";

/** Why the ticket of the address did not sign in, for the sign-in page. */
export let ticketError: ApiError | undefined;

const TICKET = /^#ticket=([\w-]+)$/;

export function hasTicket(): boolean {
  return TICKET.test(location.hash);
}

/**
 * Exchanges the ticket in the fragment of the address for a session cookie. The fragment is removed first: it must
 * not stay in the history of the browser.
 */
export async function redeemTicket(): Promise<void> {
  const ticket = TICKET.exec(location.hash)?.[1];
  if (ticket === undefined) return;
  history.replaceState(history.state, "", location.pathname + location.search);
  try {
    await client.post({ url: "/api/v1/session/ticket", baseUrl: "", body: { ticket, cookie: true }, headers: { "content-type": "application/json" }, throwOnError: true });
    ticketError = undefined;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    ticketError = error;
  }
}
