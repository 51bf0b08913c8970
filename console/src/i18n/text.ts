/** Any value of an answer as text; an absent one is empty, an object is JSON. */
export function text(value: unknown): string {
  switch (typeof value) {
    case "string":
      return value;
    case "number":
    case "boolean":
      return String(value);
    default:
      return value === undefined || value === null ? "" : JSON.stringify(value);
  }
}
