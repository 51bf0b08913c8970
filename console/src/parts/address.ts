/** The search parameters of an address. Anybody may type them, so a route reads what it knows and nothing else. */

/** Hides the parameters that `read` leaves out: the router would pass them on to the page. */
export function only<Search extends object>(read: (raw: Record<string, unknown>) => Search): (raw: Record<string, unknown>) => Search {
  return (raw) => ({ ...Object.fromEntries(Object.keys(raw).map((name) => [name, undefined])), ...read(raw) });
}

/** A page whose address has optional words, such as the item of the catalogue that it installs. */
export function wordOf<Name extends string>(...names: Name[]): (raw: Record<string, unknown>) => Partial<Record<Name, string>> {
  return only((raw): Partial<Record<Name, string>> => {
    const found: Partial<Record<Name, string>> = {};
    for (const name of names) {
      const word = raw[name];
      if (typeof word === "string" && word !== "") found[name] = word;
    }
    return found;
  });
}
