import "./design/tokens.css";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { LiveProvider } from "./api/live";
import { makeQueryClient } from "./api/queries";
import { SessionProvider } from "./api/session";
import { setStyleNonce } from "./frame/nonce";
import { startTheme } from "./frame/theme";
import { LanguageProvider } from "./i18n/i18n";
import { router } from "./router";
import { NotesProvider } from "./ui/toast";

setStyleNonce();
startTheme();
const place = document.getElementById("root");
if (place === null) throw new Error("index.html has no #root");
createRoot(place).render(
  <StrictMode>
    <LanguageProvider>
      <QueryClientProvider client={makeQueryClient()}>
        <NotesProvider>
          <SessionProvider>
            <LiveProvider>
              <RouterProvider router={router} />
            </LiveProvider>
          </SessionProvider>
        </NotesProvider>
      </QueryClientProvider>
    </LanguageProvider>
  </StrictMode>,
);
