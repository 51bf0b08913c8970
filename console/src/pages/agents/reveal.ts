/** Shows the part of the form that a JSON pointer names, such as `/policy/access/permissions/history`: the closest place that is marked. */
export function reveal(pointer: string): void {
  const places = [...document.querySelectorAll<HTMLElement>("[data-policy]")].filter(({ dataset: { policy = "" } }) => pointer === policy || pointer.startsWith(`${policy}/`));
  const place = places.toSorted((one, other) => (other.dataset.policy ?? "").length - (one.dataset.policy ?? "").length)[0];
  if (place === undefined) return;
  if (place instanceof HTMLDetailsElement) place.open = true;
  place.scrollIntoView({ block: "center" });
  place.querySelector<HTMLElement>("input, select, textarea")?.focus({ preventScroll: true });
}
