import { Download } from "lucide-react";
import { useState, type ReactNode } from "react";
import { saveFile } from "@/api/download";
import { Button } from "@/ui/button";
import { useNotes } from "@/ui/toast";

/** Saves the content that `ask` brings as a file. A failure becomes a note. */
export function useDownload(name: string, ask: () => Promise<unknown>): { download: () => void; isBusy: boolean } {
  const notes = useNotes();
  const [isBusy, setBusy] = useState(false);
  const run = async (): Promise<void> => {
    setBusy(true);
    try {
      saveFile(name, await ask());
    } catch (error) {
      notes.failed(error);
    } finally {
      setBusy(false);
    }
  };
  return { download: () => void run(), isBusy };
}

export function DownloadButton({ name, ask, children }: { name: string; ask: () => Promise<unknown>; children: ReactNode }): ReactNode {
  const { download, isBusy } = useDownload(name, ask);
  return <Button className="self-start" busy={isBusy} onClick={download}>{isBusy ? null : <Download aria-hidden />}{children}</Button>;
}
