import { useEffect, useState } from "react";

export type Theme = "light" | "dark" | "system";
const STORED = "bollard.theme";

/** Sets the colours before the first picture, also of the sign-in page. */
export function applyTheme(theme: Theme = storedTheme()): void {
  document.documentElement.classList.toggle("dark", theme === "dark" || (theme === "system" && device().matches));
}

function device(): MediaQueryList {
  return matchMedia("(prefers-color-scheme: dark)");
}

/** The chosen theme; `system` follows the device. */
export function useTheme(): [Theme, (theme: Theme) => void] {
  const [theme, setTheme] = useState<Theme>(storedTheme);
  useEffect(() => {
    const dark = device();
    const apply = (): void => applyTheme(theme);
    apply();
    dark.addEventListener("change", apply);
    return () => dark.removeEventListener("change", apply);
  }, [theme]);
  return [
    theme,
    (next) => {
      localStorage.setItem(STORED, next);
      setTheme(next);
    },
  ];
}

function storedTheme(): Theme {
  const stored = localStorage.getItem(STORED);
  return stored === "light" || stored === "dark" ? stored : "system";
}
