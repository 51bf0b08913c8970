/** Uploads of files for a message. `fetch` reports no progress of an upload, so this uses the older request. */
import { client, errorOf, type ApiError } from "@bollard/client";
import { useCallback, useRef, useState } from "react";
import { fileOf, object } from "@/parts/record-values";
import type { FileRef } from "@/parts/run-block";
import type { Place } from "./history";
import { randomId } from "./outbox";

export const MOST_FILES = 32;

export interface Pending {
  key: string;
  name: string;
  bytes: number;
  /** 0 to 1. */
  progress: number;
  error: ApiError | undefined;
}

interface Uploads {
  pending: readonly Pending[];
  add: (files: Iterable<File>) => void;
  retry: (key: string) => void;
  remove: (key: string) => void;
}

export function useUploads(place: Place, onDone: (file: FileRef) => void): Uploads {
  const [pending, setPending] = useState<readonly Pending[]>([]);
  const running = useRef(new Map<string, { file: File; abort: AbortController }>());
  const change = (key: string, fields: Partial<Pending>): void => setPending((all) => all.map((each) => (each.key === key ? { ...each, ...fields } : each)));
  const remove = useCallback((key: string): void => {
    running.current.get(key)?.abort.abort();
    running.current.delete(key);
    setPending((all) => all.filter((each) => each.key !== key));
  }, []);
  const start = (key: string, file: File): void => {
    const abort = new AbortController();
    running.current.set(key, { file, abort });
    upload(file, place, (progress) => change(key, { progress }), abort.signal).then(
      (ref) => {
        remove(key);
        onDone(ref);
      },
      (error: unknown) => {
        if (!abort.signal.aborted) change(key, { error: error as ApiError });
      },
    );
  };
  return {
    pending,
    remove,
    add: (files) => {
      for (const file of files) {
        const key = randomId();
        setPending((all) => [...all, { key, name: file.name, bytes: file.size, progress: 0, error: undefined }]);
        start(key, file);
      }
    },
    retry: (key) => {
      const file = running.current.get(key)?.file;
      if (file === undefined) return;
      change(key, { error: undefined, progress: 0 });
      start(key, file);
    },
  };
}

function upload(file: File, place: Place, onProgress: (share: number) => void, signal: AbortSignal): Promise<FileRef> {
  const query = new URLSearchParams({ conversation: place.conversation, name: file.name });
  if (place.thread !== undefined) query.set("thread", place.thread);
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `/api/v1/artifacts?${query.toString()}`);
    request.responseType = "json";
    request.setRequestHeader("content-type", file.type === "" ? "application/octet-stream" : file.type);
    for (const [name, value] of new Headers(client.getConfig().headers as HeadersInit)) {
      if (name !== "content-type") request.setRequestHeader(name, value);
    }
    request.upload.onprogress = ({ loaded, total }) => onProgress(total === 0 ? 1 : loaded / total);
    request.onload = () => {
      if (request.status === 201 || request.status === 200) resolve({ ...fileOf(object(request.response)), name: file.name });
      else reject(errorOf(request.response, request.status));
    };
    request.onerror = () => reject(errorOf({ code: "unreachable", message: "The host does not answer.", retryable: true }, 0));
    request.onabort = request.onerror;
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}
