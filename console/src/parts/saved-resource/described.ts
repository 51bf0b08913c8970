/** What the OpenAPI document says about the resources that people save. */
import type { Right } from "@/api/session";
import type { Schema } from "@/parts/schema-form/schema";
import generated from "./generated/kinds.json";

export type SavedKind = keyof typeof generated;

export interface Operation {
  /** The right that it needs; `null` for none. */
  right: Right | null;
}

export interface Described {
  path: string;
  /** The name of the field that holds the id. */
  id: string;
  list: Operation;
  create?: Operation;
  save?: Operation;
  delete?: Operation;
  body?: Schema;
}

export function described(kind: SavedKind): Described {
  return (generated as unknown as Record<SavedKind, Described>)[kind];
}
