/** The lines of a plugin as they appear. The stream resumes by itself. */
import { resumableStream, type LogLine, type StreamStatus } from "@bollard/client";
import { useEffect, useRef, useState, type ReactNode } from "react";
import { useSession } from "@/api/session";
import { useFormats } from "@/i18n/format";
import { useText } from "@/i18n/i18n";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { cn } from "@/ui/classes";
import { ErrorNote } from "@/ui/feedback";
import { texts } from "./texts";

const MOST = 2_000;
const NEAR_PX = 40;

export function PluginLogs({ plugin }: { plugin: string }): ReactNode {
  const t = useText(texts);
  const { clock } = useFormats();
  const { lines, status, error, clear } = useLines(plugin);
  const box = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  useEffect(() => {
    const element = box.current;
    if (element !== null && follows.current) element.scrollTop = element.scrollHeight;
  }, [lines]);
  return (
    <div className="flex flex-col gap-2">
      <div className="flex items-center gap-2">
        {status === "reconnecting" ? <Badge tone="wait">{t("reconnecting")}</Badge> : <Badge tone="quiet"><span aria-hidden className="size-1.5 animate-pulse rounded-full bg-accent" />{t("following")}</Badge>}
        <span className="flex-1" />
        {lines.length > 0 ? <Button size="sm" kind="ghost" onClick={clear}>{t("clear")}</Button> : null}
      </div>
      {error === undefined ? null : <ErrorNote error={error} />}
      <div
        ref={box}
        role="log"
        aria-label={t("logs")}
        tabIndex={0}
        className="h-[50dvh] overflow-auto rounded-md border border-line bg-raised p-3 font-mono text-sm scroll-thin"
        onScroll={({ currentTarget: at }) => {
          follows.current = at.scrollHeight - at.scrollTop - at.clientHeight < NEAR_PX;
        }}
      >
        {lines.length === 0 ? <p className="font-sans text-muted">{t("noLogs")}</p> : null}
        {lines.map((line) => (
          <p key={line.number} className="flex gap-3 max-sm:flex-col max-sm:gap-0">
            <span className="shrink-0 text-muted">{clock(line.at_ms / 1000)} {line.kind}</span>
            <span className={cn("min-w-0 whitespace-pre-wrap wrap-anywhere", (line.level === "error" || line.level === "critical") && "text-fail", line.level === "warning" && "text-wait")}>{line.text}</span>
          </p>
        ))}
      </div>
    </div>
  );
}

function useLines(plugin: string): { lines: readonly LogLine[]; status: StreamStatus; error: unknown; clear: () => void } {
  const { workspace } = useSession();
  const [lines, setLines] = useState<readonly LogLine[]>([]);
  const [status, setStatus] = useState<StreamStatus>("connecting");
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    const abort = new AbortController();
    const url = `/api/v1/plugins/${plugin.split("/").map(encodeURIComponent).join("/")}/logs/stream`;
    void (async () => {
      try {
        for await (const record of resumableStream(url, { signal: abort.signal, onStatus: setStatus, headers: { "bollard-workspace": workspace } })) {
          if (record.type === "line") setLines((before) => [...before.slice(1 - MOST), record.data as unknown as LogLine]);
        }
      } catch (failure) {
        setError(failure);
      }
    })();
    return () => {
      abort.abort();
      setLines([]); // the next stream begins with the stored lines again
    };
  }, [plugin, workspace]);
  return { lines, status, error, clear: () => setLines([]) };
}
