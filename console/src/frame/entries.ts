import { useMemo } from "react";
import { useSession } from "@/api/session";
import { navigation, type Entry } from "./navigation";

/** The pages that the person may see. */
export function useEntries(): Entry[] {
  const { may } = useSession();
  return useMemo(() => navigation.flatMap((group) => group.entries).filter((entry) => entry.right === undefined || may(entry.right)), [may]);
}
