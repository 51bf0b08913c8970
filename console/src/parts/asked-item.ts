import { useNavigate, useSearch } from "@tanstack/react-router";

interface Asked<T> {
  item: T | "new" | undefined;
  clear: () => void;
}

/** The item of a list that the address opens: `open` with its id, or `add` for a new one. */
export function useAskedItem<T>(rows: readonly T[], idOf: (row: T) => string, mayAdd: boolean): Asked<T> {
  const { open, add } = useSearch({ strict: false });
  const navigate = useNavigate();
  const item = open !== undefined ? rows.find((row) => idOf(row) === open) : add !== undefined && mayAdd ? "new" : undefined;
  return { item, clear: () => void (open === undefined && add === undefined ? undefined : navigate({ to: ".", search: {}, replace: true })) };
}
