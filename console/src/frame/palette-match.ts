/** Finds what a person means by the words that they typed. Pure. */
import type { ReactNode } from "react";

interface Named {
  id: string;
  kind: "page" | "agent" | "model" | "binding" | "kind" | "action" | "runKind";
  name: string;
  /** Other words that find it: its id, its English name. */
  also: string;
  icon: ReactNode;
}
/** A place to go to, or something to do. */
export type Target = Named & ({ path: string; act?: undefined } | { act: () => void });

const MOST = 12;

/** The targets that have every word, those whose name begins with the words first. */
export function bestOf(targets: readonly Target[], typed: string): Target[] {
  const whole = typed.toLowerCase().trim();
  const words = whole.split(/\s+/);
  const rank = ({ name, also }: Target): number => {
    const [own, other] = [name.toLowerCase(), also.toLowerCase()];
    if (!words.every((word) => own.includes(word) || other.includes(word))) return Infinity;
    return own.startsWith(whole) || other.startsWith(whole) ? 0 : ` ${own} ${other}`.includes(` ${whole}`) ? 1 : 2;
  };
  return targets.map((target) => ({ target, at: rank(target) })).filter(({ at }) => at < Infinity).sort((one, two) => one.at - two.at).slice(0, MOST).map(({ target }) => target);
}
