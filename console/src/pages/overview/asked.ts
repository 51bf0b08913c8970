import type { Approval, Overview } from "@bollard/client";

const HOUR_S = 3_600;

/** How many actions asked for consent in each hour. An hour before the oldest approval of an unfinished list is unknown. */
export function askedPerHour(hours: readonly Overview["hours"][number][], { items, has_more }: { items: readonly Pick<Approval, "requested_at">[]; has_more: boolean }): (number | null)[] {
  const oldest = has_more ? Math.min(...items.map((approval) => approval.requested_at)) : -Infinity;
  return hours.map(({ at }) => (at < oldest ? null : items.filter(({ requested_at: asked }) => asked >= at && asked < at + HOUR_S).length));
}
