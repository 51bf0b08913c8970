/** Sends a file with its progress. `fetch` reports no progress of an upload. */
import { errorOf, unreachable } from "@bollard/client";

export interface Upload {
  method?: "POST" | "PUT";
  url: string;
  body: Blob;
  contentType: string;
  workspace: string;
  headers?: Readonly<Record<string, string>>;
  /** Told in percent. 100 means that the host has the file and works on it. */
  onProgress?: (percent: number) => void;
}

export function upload<T>({ method = "POST", url, body, contentType, workspace, headers = {}, onProgress }: Upload): Promise<T> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(method, url);
    request.setRequestHeader("content-type", contentType);
    request.setRequestHeader("bollard-workspace", workspace);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => onProgress?.(Math.round((100 * event.loaded) / Math.max(1, event.total)));
    request.onerror = () => reject(unreachable());
    request.onload = () => {
      const answer = parsed(request.responseText);
      if (request.status >= 200 && request.status < 300) resolve(answer as T);
      else reject(errorOf(answer, request.status));
    };
    request.send(body);
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
