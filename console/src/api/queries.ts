import { ApiError } from "@bollard/client";
import { MutationCache, QueryCache, QueryClient } from "@tanstack/react-query";
import { isSignedOut, SESSION_KEY } from "./session";

const RETRIES = 2;

declare module "@tanstack/react-query" {
  interface Register {
    queryMeta: { isPolled?: true };
  }
}

/** `meta` of a query of things that change without an event on the stream: a visible page asks for them again. */
export const POLLED = { isPolled: true } as const;

/** One cache of answers for the page. A session that ended shows the sign-in page; typed text stays where it is. */
export function makeQueryClient(): QueryClient {
  const onError = (error: unknown, key?: readonly unknown[]): void => {
    if (isSignedOut(error) && key?.[0] !== SESSION_KEY[0]) void queries.invalidateQueries({ queryKey: SESSION_KEY });
  };
  const queries = new QueryClient({
    queryCache: new QueryCache({ onError: (error, query) => onError(error, query.queryKey) }),
    mutationCache: new MutationCache({ onError: (error) => onError(error) }),
    defaultOptions: {
      queries: {
        retry: (count, error) => error instanceof ApiError && error.retryable && count < RETRIES,
        staleTime: 5_000,
        refetchOnWindowFocus: true,
        networkMode: "always", // a host on loopback works without a network
      },
      mutations: { networkMode: "always" },
    },
  });
  return queries;
}
