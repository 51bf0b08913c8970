/** Values of records, which may come from a newer host: what is not of the expected type is absent. */
import type { FileRef, Source } from "./run-block";

/** The text of an outcome if it is nothing else, otherwise all its content. */
export function outputOf(data: Record<string, unknown>): unknown {
  const content = list(data.content);
  const texts = content.map((part) => text(object(part).text));
  if (content.length > 0 && texts.every((each) => each !== undefined)) return texts.join("\n");
  return content.length > 0 ? content : data.structured;
}

export function contentText(content: unknown): string {
  if (typeof content === "string") return content;
  return list(content).map((part) => text(object(part).text) ?? "").join("");
}

export function sourcesOf(value: unknown): Source[] {
  return list(value).map(object).flatMap((each) => {
    const id = number(each.id);
    if (id === undefined) return [];
    return [{ id, name: text(each.name) ?? "", knowledgeBase: text(each.kb_id) ?? "", source: text(each.source) ?? "" }];
  });
}

export function fileOf(data: Record<string, unknown>): FileRef {
  const id = text(data.artifact_id) ?? "";
  return { id, name: text(data.name) ?? id, type: text(data.artifact_type) ?? "file", mimeType: text(data.mime_type) ?? "application/octet-stream", bytes: number(data.size_bytes) };
}

export function object(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}
export function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
export function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
export function number(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}
