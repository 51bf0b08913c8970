/** What a component needs around it in a test: a session, a language, a cache, a router and a host that answers by path. */
import type { Caller } from "@bollard/client";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createMemoryHistory, createRootRoute, createRouter, RouterProvider } from "@tanstack/react-router";
import { render } from "@testing-library/react";
import type { ReactNode } from "react";
import { vi } from "vitest";
import { SessionProvider } from "@/api/session";
import { LanguageProvider, type Language } from "@/i18n/i18n";

export interface Asked {
  method: string;
  path: string;
  body: unknown;
}
export type Answer = (asked: Asked) => unknown;

/** Renders a component as a person with these rights sees it. Returns the requests that it made. */
export function show(children: ReactNode, rights: Caller["rights"], answer: Answer, language: Language = "en"): Asked[] {
  const requests: Asked[] = [];
  const session: Caller = { workspace: "default", kind: "session", name: "ann", rights };
  vi.stubGlobal("Request", class extends Request {
    constructor(url: string, init?: RequestInit) {
      super(new URL(url, "http://host.test"), init); // Node knows no address of the page
    }
  });
  vi.stubGlobal("fetch", async (request: Request) => {
    const path = new URL(request.url).pathname;
    const text = await request.text();
    const asked: Asked = { method: request.method, path, body: text === "" ? undefined : JSON.parse(text) };
    if (path === "/api/v1/session") return Response.json(session);
    requests.push(asked);
    const said = answer(asked);
    return said instanceof Response ? said : Response.json(said);
  });
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const route = createRootRoute({ component: () => <SessionProvider>{children}</SessionProvider> });
  const router = createRouter({ routeTree: route, history: createMemoryHistory() });
  render(
    <LanguageProvider initial={language}>
      <QueryClientProvider client={queries}><RouterProvider router={router as never} /></QueryClientProvider>
    </LanguageProvider>,
  );
  return requests;
}
