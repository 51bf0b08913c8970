/** Who uses the page: the session of the cookie, its rights and its workspace. */
import { ApiError, configure, showSession, type Caller } from "@bollard/client";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { Dialog } from "radix-ui";
import { createContext, lazy, Suspense, use, useCallback, useEffect, useMemo, useState, type ReactNode } from "react";
import { ErrorNote, Skeleton } from "@/ui/feedback";
import { hasTicket, redeemTicket } from "./ticket";

export type Session = Caller;
export type Right = Session["rights"][number];

export interface SessionState {
  session: Session;
  /** Whether the person may do this. What they may not do is not shown, and the host refuses it. */
  may: (right: Right) => boolean;
  workspace: string;
  setWorkspace: (workspace: string) => void;
}

/** Who is signed in needs no form. */
const SignIn = lazy(() => import("@/frame/sign-in"));
const Context = createContext<SessionState | undefined>(undefined);
const STORED = "bollard.workspace";
export const SESSION_KEY = ["session"] as const;

export function useSession(): SessionState {
  const value = use(Context);
  if (value === undefined) throw new Error("useSession outside of SessionProvider");
  return value;
}

/** Signs in with the ticket of the address, else with the cookie, else asks. */
export function SessionProvider({ children }: { children: ReactNode }): ReactNode {
  const queries = useQueryClient();
  const query = useQuery({
    queryKey: SESSION_KEY,
    queryFn: async () => {
      await redeemTicket();
      const workspace = localStorage.getItem(STORED);
      configure(workspace === null ? {} : { workspace });
      try {
        return await showSession();
      } catch (error) {
        if (workspace === null || !(error instanceof ApiError) || error.code !== "not_found") throw error;
        localStorage.removeItem(STORED); // the workspace of the last visit is gone
        configure({});
        return await showSession();
      }
    },
    retry: (count, error) => error instanceof ApiError && error.retryable && count < 3,
    staleTime: 60_000,
  });
  const setWorkspace = useCallback(
    (workspace: string) => {
      localStorage.setItem(STORED, workspace);
      configure({ workspace });
      queries.clear(); // nothing of one workspace is shown in another
    },
    [queries],
  );
  const links = usePastedLinks(useCallback(() => void queries.resetQueries(), [queries])); // nothing of one caller is shown to another
  const session = query.data;
  const value = useMemo(
    () => session && { session, may: (right: Right) => session.rights.includes(right), workspace: session.workspace, setWorkspace },
    [session, setWorkspace],
  );
  const signIn = isSignedOut(query.error) ? <Suspense><SignIn key={links} expired={value !== undefined} onSignedIn={() => void queries.invalidateQueries()} /></Suspense> : null;
  if (value !== undefined) {
    return (
      <Context value={value}>
        {children /* what was typed stays under the sign-in of a session that expired */}
        {signIn === null ? null : <OnTop>{signIn}</OnTop>}
      </Context>
    );
  }
  if (signIn !== null) return signIn;
  if (query.error !== null) {
    return <div className="mx-auto max-w-xl p-6"><ErrorNote error={query.error} onRetry={() => void query.refetch()} /></div>;
  }
  return <Skeleton rows={3} className="mx-auto max-w-xl p-6" />;
}

/** A link with a ticket that is pasted into an open page changes only the fragment, and loads nothing. Counts such links. */
function usePastedLinks(onSignedIn: () => void): number {
  const [count, setCount] = useState(0);
  useEffect(() => {
    const take = (): void => {
      if (!hasTicket()) return;
      void redeemTicket().then(() => {
        setCount((before) => before + 1);
        onSignedIn();
      });
    };
    addEventListener("hashchange", take);
    return () => removeEventListener("hashchange", take);
  }, [onSignedIn]);
  return count;
}

/** Above every open dialog, which would otherwise keep the focus and the pointer. */
function OnTop({ children }: { children: ReactNode }): ReactNode {
  return (
    <Dialog.Root open>
      <Dialog.Portal>
        <Dialog.Content className="fixed inset-0 z-50" aria-describedby={undefined} onEscapeKeyDown={(event) => event.preventDefault()} onInteractOutside={(event) => event.preventDefault()}>
          <Dialog.Title className="sr-only">Bollard</Dialog.Title>
          {children}
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

export function isSignedOut(error: unknown): boolean {
  return error instanceof ApiError && error.status === 401;
}
