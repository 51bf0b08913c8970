/** What a person typed and attached but did not send, per conversation. It survives reloads and switching. */
import { useState } from "react";
import type { FileRef } from "@/parts/run-block";
import { randomId } from "./outbox";

export interface Draft {
  text: string;
  files: readonly FileRef[];
}

const PREFIX = "bollard.chat.draft.";
const NEW = "bollard.chat.new";
const EMPTY: Draft = { text: "", files: [] };

export function useDraft(conversation: string): [Draft, (change: (draft: Draft) => Draft) => void] {
  const [draft, setDraft] = useState(() => read(conversation));
  return [
    draft,
    (change) =>
      setDraft((before) => {
        const next = change(before);
        if (next.text === "" && next.files.length === 0) sessionStorage.removeItem(PREFIX + conversation);
        else sessionStorage.setItem(PREFIX + conversation, JSON.stringify(next));
        return next;
      }),
  ];
}

function read(conversation: string): Draft {
  try {
    return { ...EMPTY, ...(JSON.parse(sessionStorage.getItem(PREFIX + conversation) ?? "{}") as Partial<Draft>) };
  } catch {
    return EMPTY;
  }
}

/** The id of the conversation that the next first message begins; the same until it is used. */
export function newConversationId(): string {
  const known = sessionStorage.getItem(NEW);
  if (known !== null) return known;
  const id = `web-${randomId().slice(0, 12)}`;
  sessionStorage.setItem(NEW, id);
  return id;
}

export function spendConversationId(id: string): void {
  if (sessionStorage.getItem(NEW) === id) sessionStorage.removeItem(NEW);
}
