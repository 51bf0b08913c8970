import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { ask } from "@/api/request";
import type { Fields } from "@/parts/schema-form/schema";
import { described, type SavedKind } from "./described";

/** A stored secret in an answer. Sent back, it keeps the value. */
export const KEPT = "__kept__";

export function useSaved(kind: SavedKind, id: string | undefined): UseQueryResult<Fields> {
  return useQuery({ queryKey: [kind, "one", id], queryFn: () => ask<Fields>("GET", `${described(kind).path}/{id}`, { path: { id } }), enabled: id !== undefined });
}

/**
 * Saves a resource. `before` is the value that was edited: its revision makes the host refuse a save over the change of
 * another person, and its secrets stay where the form has none.
 */
export function saveResource(kind: SavedKind, id: string, fields: Fields, before?: Fields): Promise<Fields> {
  const { path, save, body } = described(kind);
  if (save === undefined) return ask<Fields>("POST", path, { body: fields });
  const kept = Object.keys(body?.properties ?? {}).filter((name) => before?.[name] === KEPT && fields[name] === undefined);
  const headers: Record<string, string> = typeof before?.revision === "number" ? { "if-match": `"${before.revision}"` } : {};
  return ask<Fields>("PUT", `${path}/{id}`, { path: { id: id.trim() }, body: { ...fields, ...Object.fromEntries(kept.map((name) => [name, KEPT])) }, headers });
}

export function deleteResource(kind: SavedKind, id: string): Promise<unknown> {
  return ask("DELETE", `${described(kind).path}/{id}`, { path: { id } });
}

/** The fields that a form edits: those of the body, without what the host keeps secret. `password: true` says that there is one. */
export function editableFields(kind: SavedKind, value: Fields | undefined): Fields {
  const known = described(kind).body?.properties ?? {};
  const isSecret = (name: string, each: unknown): boolean => each === KEPT || (typeof each === "boolean" && known[name]?.type === "string");
  return Object.fromEntries(Object.entries(value ?? {}).filter(([name, each]) => name in known && name !== "revision" && each !== null && !isSecret(name, each)));
}
