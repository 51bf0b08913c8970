/** Keeps one press from deciding two requests. */
import { useEffect, useState } from "react";

/**
 * A request accepts no decision for this long after it appears, and after the decision of another one: a press that was
 * meant for something else, or the second one of a double press, may land on it.
 */
export const ARMED_AFTER_MS = 500;
const decided = new EventTarget();
let decidedAt = Number.NEGATIVE_INFINITY;

/** Whether a press may decide now. If so, all requests are disarmed for a moment. */
export function takeDecision(now: number = performance.now()): boolean {
  if (now - decidedAt < ARMED_AFTER_MS) return false;
  decidedAt = now;
  decided.dispatchEvent(new Event("decided"));
  return true;
}

export function useArmed(): boolean {
  const [armed, setArmed] = useState(false);
  useEffect(() => {
    let timer = setTimeout(() => setArmed(true), ARMED_AFTER_MS);
    const disarm = (): void => {
      setArmed(false);
      clearTimeout(timer);
      timer = setTimeout(() => setArmed(true), ARMED_AFTER_MS);
    };
    decided.addEventListener("decided", disarm);
    return () => {
      clearTimeout(timer);
      decided.removeEventListener("decided", disarm);
    };
  }, []);
  return armed;
}
