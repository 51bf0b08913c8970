import { useCallback, useSyncExternalStore } from "react";

/** Whether the screen is narrower than this. Below 1280 px beside the rail there is no room for two columns. */
export function useNarrow(px = 1280): boolean {
  const query = `(max-width: ${px - 1}px)`;
  const subscribe = useCallback(
    (changed: () => void) => {
      const media = matchMedia(query);
      media.addEventListener("change", changed);
      return () => media.removeEventListener("change", changed);
    },
    [query],
  );
  return useSyncExternalStore(subscribe, () => matchMedia(query).matches);
}
