/** The words, the kind and the opened item of the catalogue, as the address holds them. */
import type { CatalogueItem } from "@bollard/client";

export type Kind = CatalogueItem["kind"];
export const KINDS = ["plugin", "mcp_server", "skill"] as const satisfies readonly Kind[];

export interface CatalogueSearch {
  search?: string;
  kind?: Kind;
  /** The item whose sheet is open, such as `bundled/echo`. */
  item?: string;
}

export function catalogueSearch(raw: Record<string, unknown>): CatalogueSearch {
  const found: CatalogueSearch = {};
  for (const name of ["search", "item"] as const) {
    const value = raw[name];
    if ((typeof value === "string" || typeof value === "number") && String(value).trim() !== "") found[name] = String(value);
  }
  const kind = KINDS.find((each) => each === raw.kind);
  return kind === undefined ? found : { ...found, kind };
}
