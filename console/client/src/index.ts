/** The Bollard HTTP API for TypeScript: generated types and requests, typed errors, and a stream that resumes by itself. */
import { errorOf, unreachable } from "./errors";
import { client } from "./generated/client.gen";

export * from "./generated";
export { client } from "./generated/client.gen";
export { ApiError, errorOf, unreachable, type ErrorBody } from "./errors";
export { SseParser, type SseEvent } from "./sse";
export { resumableStream, type StreamOptions, type StreamRecord, type StreamStatus } from "./stream";

export interface ClientSettings {
  /** The address of the host; the default is the origin of the page. */
  baseUrl?: string;
  /** An API key or the admin token. A page with a session cookie needs none. */
  token?: string;
  workspace?: string;
}

/** Sets the address, token and workspace of every request. */
export function configure(settings: ClientSettings): void {
  const headers: Record<string, string> = {};
  if (settings.token !== undefined) headers.authorization = `Bearer ${settings.token}`;
  if (settings.workspace !== undefined) headers["bollard-workspace"] = settings.workspace;
  client.setConfig({ baseUrl: settings.baseUrl ?? "", headers });
}

client.interceptors.error.use((error: unknown, answer: Response | undefined) =>
  answer === undefined ? (isAbort(error) ? error : unreachable()) : errorOf(error, answer.status),
);

function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}
