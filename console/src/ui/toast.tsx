/** Short notes at the edge of the page about actions that are done or failed. */
import { CircleCheck, TriangleAlert, X } from "lucide-react";
import { createContext, use, useCallback, useMemo, useState, type ReactNode } from "react";
import { errorText } from "@/i18n/errors";
import { catalogue, useLanguage, useText } from "@/i18n/i18n";
import { Button } from "./button";
import { cn } from "./classes";

const texts = catalogue({ dismiss: "Dismiss", notes: "Notes" }, { dismiss: "关闭", notes: "提示" });

interface Note {
  id: number;
  text: string;
  hint?: string | undefined;
  failed: boolean;
}
interface Notes {
  done: (text: string) => void;
  failed: (error: unknown) => void;
}

const Context = createContext<Notes>({ done: () => undefined, failed: () => undefined });
const SHOWN_MS = 5_000;
const MOST = 4;
let next = 0;

export function useNotes(): Notes {
  return use(Context);
}

export function NotesProvider({ children }: { children: ReactNode }): ReactNode {
  const t = useText(texts);
  const { language } = useLanguage();
  const [notes, setNotes] = useState<readonly Note[]>([]);
  const drop = useCallback((id: number) => setNotes((all) => all.filter((note) => note.id !== id)), []);
  const value = useMemo<Notes>(() => {
    const add = (note: Omit<Note, "id">): void => {
      const id = next++;
      setNotes((all) => [...all.slice(1 - MOST), { ...note, id }]);
      if (!note.failed) setTimeout(() => drop(id), SHOWN_MS); // an error stays until a person has read it
    };
    return {
      done: (text) => add({ text, failed: false }),
      failed: (error) => {
        const { message, hint } = errorText(error, language);
        add({ text: message, hint, failed: true });
      },
    };
  }, [drop, language]);
  return (
    <Context value={value}>
      {children}
      <div aria-live="polite" role="region" aria-label={t("notes")} className="pointer-events-none fixed right-4 bottom-4 z-50 flex w-[min(24rem,calc(100vw-2rem))] flex-col gap-2 max-sm:bottom-20">
        {notes.map((note) => (
          <div key={note.id} className={cn("pointer-events-auto flex items-start gap-2 rounded-lg border bg-surface p-3 shadow-overlay", note.failed ? "border-fail/50" : "border-line")}>
            {note.failed ? <TriangleAlert aria-hidden className="mt-0.5 text-fail" /> : <CircleCheck aria-hidden className="mt-0.5 text-accent" />}
            <div className="min-w-0 flex-1">
              <p>{note.text}</p>
              {note.hint === undefined ? null : <p className="text-sm text-muted">{note.hint}</p>}
            </div>
            <Button kind="ghost" size="icon" className="-my-1 size-7" aria-label={t("dismiss")} onClick={() => drop(note.id)}><X aria-hidden /></Button>
          </div>
        ))}
      </div>
    </Context>
  );
}
