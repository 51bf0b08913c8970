import type { ReactNode } from "react";
import { FileChip } from "@/parts/file-chip";
import type { FileRef } from "@/parts/run-block";
import { useText } from "@/i18n/i18n";
import { cn } from "@/ui/classes";
import { chatTexts } from "./texts";

/** What a person said, as text and never as markup, and what became of it. */
export function UserMessage({ text, files, caption, faded = false }: { text: string; files: readonly FileRef[]; caption?: ReactNode; faded?: boolean }): ReactNode {
  const t = useText(chatTexts);
  return (
    <div className="flex flex-col items-end gap-1">
      <span className="sr-only">{t("you")}</span>
      {files.length === 0 ? null : <div className="flex max-w-[85%] flex-wrap justify-end gap-2">{files.map((file) => <FileChip key={file.id} file={file} />)}</div>}
      {text === "" ? null : <p dir="auto" className={cn("max-w-[85%] rounded-lg bg-pressed px-3.5 py-2 text-chat whitespace-pre-wrap", faded && "opacity-60")}>{text}</p>}
      {caption === undefined ? null : <div className="flex max-w-[85%] items-center justify-end gap-1.5 text-sm text-muted">{caption}</div>}
    </div>
  );
}
