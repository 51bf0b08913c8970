import { useSyncExternalStore } from "react";

export type Theme = "light" | "dark" | "system";
export const THEMES: readonly Theme[] = ["light", "dark", "system"];
const STORED = "bollard.theme";
const listeners = new Set<() => void>();

/** Sets the colours before the first picture, also of the sign-in page. `system` follows the device from then on. */
export function startTheme(): void {
  applyTheme();
  device().addEventListener("change", applyTheme);
}

export function useTheme(): [Theme, (theme: Theme) => void] {
  return [useSyncExternalStore(subscribe, storedTheme), setTheme];
}

function setTheme(theme: Theme): void {
  localStorage.setItem(STORED, theme);
  applyTheme();
  for (const listener of listeners) listener();
}

function applyTheme(): void {
  const theme = storedTheme();
  document.documentElement.classList.toggle("dark", theme === "dark" || (theme === "system" && device().matches));
}

function device(): MediaQueryList {
  return matchMedia("(prefers-color-scheme: dark)");
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function storedTheme(): Theme {
  const stored = localStorage.getItem(STORED);
  return stored === "light" || stored === "dark" ? stored : "system";
}
