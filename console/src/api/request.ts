import { client } from "@bollard/client";

export interface Request {
  /** Values for the `{names}` of the path. */
  path?: Record<string, unknown>;
  query?: Record<string, unknown>;
  body?: unknown;
  headers?: Record<string, string>;
}

/** A request whose path is known at run time only. Others use the generated functions. */
export async function ask<T>(method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE", url: string, request: Request = {}): Promise<T> {
  const headers = request.body === undefined ? request.headers : { "content-type": "application/json", ...request.headers };
  const answer: unknown = await client.request({ method, url, ...request, headers, responseStyle: "data", throwOnError: true });
  return answer as T;
}
