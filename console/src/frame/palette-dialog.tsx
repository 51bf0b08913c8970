/** The palette (⌘K) as far as every page needs it: its keys and its frame. What it offers is a chunk of its own. */
import { lazy, Suspense, useEffect, useState, type ReactNode } from "react";
import { catalogue, useText } from "@/i18n/i18n";
import { Skeleton } from "@/ui/feedback";
import { Input } from "@/ui/field";
import { Dialog } from "@/ui/overlay";

const texts = catalogue(
  { title: "Search", placeholder: "A page, a thing, an action, or the id of a run" },
  { title: "搜索", placeholder: "页面、资源、操作，或运行 ID" },
);
const Choices = lazy(() => import("./palette"));

export function Palette({ open, onOpenChange }: { open: boolean; onOpenChange: (open: boolean) => void }): ReactNode {
  const t = useText(texts);
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        onOpenChange(!open);
      }
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, [open, onOpenChange]);
  return (
    <Dialog open={open} onOpenChange={onOpenChange} title={t("title")} className="top-[12vh] max-h-[76dvh] translate-y-0">
      {open ? <Search onChosen={() => onOpenChange(false)} /> : null}
    </Dialog>
  );
}

/** What is typed while the chunk loads is kept, and so is an Enter. */
function Search({ onChosen }: { onChosen: () => void }): ReactNode {
  const t = useText(texts);
  const [typed, setTyped] = useState("");
  const [isEntered, setEntered] = useState(false);
  const early = (
    <div className="flex flex-col gap-2">
      <Input autoFocus aria-label={t("placeholder")} placeholder={t("placeholder")} value={typed} onChange={(event) => setTyped(event.target.value)} onKeyDown={(event) => event.key === "Enter" && !event.nativeEvent.isComposing ? setEntered(true) : undefined} />
      <Skeleton rows={6} />
    </div>
  );
  return <Suspense fallback={early}><Choices label={t("placeholder")} typed={typed} onTyped={setTyped} isEntered={isEntered} onChosen={onChosen} /></Suspense>;
}
