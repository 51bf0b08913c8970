import { useEffect, useState, type ReactNode } from "react";
import { useFormats } from "@/i18n/format";

const REFRESH_MS = 10_000;

/** The time until a deadline, with the absolute one on hover. `at` is in seconds. */
export function Deadline({ at }: { at: number }): ReactNode {
  const { ago, absolute } = useFormats();
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  return <time dateTime={new Date(at * 1000).toISOString()} title={absolute(at)} className="whitespace-nowrap">{ago(at, now)}</time>;
}
