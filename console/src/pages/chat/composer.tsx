/** Where a person types. Enter sends, Shift-Enter breaks the line; files come by drop, paste and picker. */
import { ArrowUp, CornerDownRight, Paperclip, Square } from "lucide-react";
import { useEffect, useRef, useState, type ClipboardEvent, type DragEvent, type KeyboardEvent, type ReactNode } from "react";
import { FileChip, UploadChip } from "@/parts/file-chip";
import type { FileRef } from "@/parts/run-block";
import { errorText } from "@/i18n/errors";
import { catalogue, useLanguage, useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { cn } from "@/ui/classes";
import { useDraft } from "./draft";
import type { Place } from "./history";
import { MOST_FILES, useUploads } from "./uploads";

const texts = catalogue(
  {
    message: "Message", placeholder: "Message {agent}", attach: "Attach files", send: "Send", steer: "Steer", queue: "Queue", interrupt: "Interrupt", stop: "Stop", stopping: "Stopping",
    drop: "Drop files to attach them", keys: "Enter sends, Shift-Enter breaks the line", tooMany: "A message has at most {count} files.",
    "hint.steer": "Your message goes into the active run.", "hint.queue": "Your message waits for the active run.", "hint.interrupt": "Your message stops the active run and starts another.", "hint.reject": "This agent takes no message while a run is active.", "hint.parallel": "Your message starts a run beside the active one.",
  },
  {
    message: "消息", placeholder: "发消息给 {agent}", attach: "添加文件", send: "发送", steer: "引导", queue: "排队", interrupt: "打断", stop: "停止", stopping: "正在停止",
    drop: "松开即可添加文件", keys: "回车发送，Shift+回车换行", tooMany: "一条消息最多附带 {count} 个文件。",
    "hint.steer": "你的消息会进入正在进行的运行。", "hint.queue": "你的消息会等待当前运行结束。", "hint.interrupt": "你的消息会停止当前运行并开始新的运行。", "hint.reject": "运行期间，此智能体不接收消息。", "hint.parallel": "你的消息会另起一个并行的运行。",
  },
);

export type Mode = "steer" | "queue" | "interrupt" | "reject" | "parallel";

export interface ComposerProps {
  place: Place;
  agentName: string;
  /** How the agent treats a message during a run. */
  mode: Mode;
  /** Whether a run of this agent is active in the conversation. */
  active: boolean;
  stopping: boolean;
  onSend: (text: string, files: readonly FileRef[]) => void;
  /** Absent without an active run, and if the person may not stop runs. */
  onStop: (() => void) | undefined;
}

export function Composer({ place, agentName, mode, active, stopping, onSend, onStop }: ComposerProps): ReactNode {
  const t = useText(texts);
  const [draft, setDraft] = useDraft(place.conversation);
  const uploads = useUploads(place, (file) => setDraft((before) => ({ ...before, files: [...before.files, file] })));
  const [dropping, setDropping] = useState(false);
  const [tooMany, setTooMany] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    if (matchMedia("(hover: hover)").matches) area.current?.focus(); // a phone would open its keyboard
  }, []);
  const isBlocked = active && mode === "reject";
  const ready = !isBlocked && (draft.text.trim() !== "" || draft.files.length > 0) && uploads.pending.length === 0;
  const send = (): void => {
    if (!ready) return;
    onSend(draft.text, draft.files);
    setDraft(() => ({ text: "", files: [] }));
  };
  const add = (files: Iterable<File>): void => {
    const all = [...files];
    const room = MOST_FILES - draft.files.length - uploads.pending.length;
    setTooMany(all.length > room);
    uploads.add(all.slice(0, Math.max(0, room)));
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- 229 is the only sign of a composing IME in Safari
    const composes = event.nativeEvent.isComposing || event.keyCode === 229;
    if (event.key !== "Enter" || event.shiftKey || composes) return;
    event.preventDefault();
    if (!event.repeat) send();
  };
  const onPaste = (event: ClipboardEvent): void => {
    if (event.clipboardData.files.length === 0) return;
    event.preventDefault();
    add(event.clipboardData.files);
  };
  const onDrop = (event: DragEvent): void => {
    event.preventDefault();
    setDropping(false);
    add(event.dataTransfer.files);
  };
  return (
    <form
      aria-label={t("message")}
      className={cn("relative flex flex-col gap-2 rounded-lg border bg-surface p-2 focus-within:border-accent", dropping ? "border-accent" : "border-line-strong/60")}
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
      onDragOver={(event) => {
        event.preventDefault();
        setDropping(true);
      }}
      onDragLeave={() => setDropping(false)}
      onDrop={onDrop}
    >
      {dropping ? <p className="pointer-events-none absolute inset-0 z-10 grid place-items-center rounded-lg bg-accent-soft text-accent-text">{t("drop")}</p> : null}
      <Files files={draft.files} uploads={uploads} onRemove={(id) => setDraft((before) => ({ ...before, files: before.files.filter((file) => file.id !== id) }))} />
      {tooMany ? <p role="alert" className="px-1 text-sm text-fail">{t("tooMany", { count: MOST_FILES })}</p> : null}
      <textarea
        ref={area}
        rows={1}
        dir="auto"
        aria-label={t("message")}
        placeholder={t("placeholder", { agent: agentName })}
        value={draft.text}
        onChange={(event) => setDraft((before) => ({ ...before, text: event.target.value }))}
        onKeyDown={onKeyDown}
        onPaste={onPaste}
        className="field-sizing-content max-h-52 min-h-8 w-full resize-none bg-transparent px-2 py-1 text-chat outline-none placeholder:text-muted/80 scroll-thin focus-visible:outline-none"
      />
      <div className="flex items-center gap-2">
        <AttachButton onFiles={add} />
        <p className={cn("min-w-0 flex-1 text-sm text-muted", isBlocked ? draft.text !== "" && "text-wait" : "truncate max-sm:invisible")}>{active ? t(`hint.${mode}`) : t("keys")}</p>
        <div className="flex shrink-0">
          {onStop === undefined ? null : <Button kind="secondary" disabled={stopping} onClick={onStop} className="rounded-r-none border-r-0"><Square aria-hidden className="fill-current size-3!" />{t(stopping ? "stopping" : "stop")}</Button>}
          <Button kind="primary" type="submit" disabled={!ready} className={onStop === undefined ? undefined : "rounded-l-none"}>
            {active && mode === "steer" ? <CornerDownRight aria-hidden /> : <ArrowUp aria-hidden />}
            {t(active && (mode === "steer" || mode === "queue" || mode === "interrupt") ? mode : "send")}
          </Button>
        </div>
      </div>
    </form>
  );
}

function Files({ files, uploads, onRemove }: { files: readonly FileRef[]; uploads: ReturnType<typeof useUploads>; onRemove: (id: string) => void }): ReactNode {
  const { language } = useLanguage();
  if (files.length === 0 && uploads.pending.length === 0) return null;
  return (
    <div className="flex flex-wrap gap-2">
      {files.map((file) => <FileChip key={file.id} file={file} onRemove={() => onRemove(file.id)} />)}
      {uploads.pending.map((each) => (
        <UploadChip key={each.key} name={each.name} progress={each.progress} error={each.error === undefined ? undefined : errorText(each.error, language).message} onRetry={() => uploads.retry(each.key)} onRemove={() => uploads.remove(each.key)} />
      ))}
    </div>
  );
}

function AttachButton({ onFiles }: { onFiles: (files: Iterable<File>) => void }): ReactNode {
  const t = useText(texts);
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <Button kind="ghost" size="icon" aria-label={t("attach")} title={t("attach")} onClick={() => input.current?.click()}><Paperclip aria-hidden /></Button>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        onChange={(event) => {
          onFiles(event.target.files ?? []);
          event.target.value = "";
        }}
      />
    </>
  );
}
