/** The search parameters of an address. Anybody may type them, so a route reads what it knows and nothing else. */

/** Hides the parameters that `read` leaves out: the router would pass them on to the page. */
export function only<Search extends object>(read: (raw: Record<string, unknown>) => Search): (raw: Record<string, unknown>) => Search {
  return (raw) => ({ ...Object.fromEntries(Object.keys(raw).map((name) => [name, undefined])), ...read(raw) });
}

/** A page whose address has one optional word, such as the item of the catalogue that it installs. */
export function wordOf<Name extends string>(name: Name): (raw: Record<string, unknown>) => Partial<Record<Name, string>> {
  return only((raw): Partial<Record<Name, string>> => {
    const word = raw[name];
    return typeof word === "string" && word !== "" ? ({ [name]: word } as Partial<Record<Name, string>>) : {};
  });
}
