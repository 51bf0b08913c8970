/** A file as a chip: its name and size, a thumbnail of an image, and a click that downloads it. */
import { getArtifactContent } from "@bollard/client";
import { useQuery } from "@tanstack/react-query";
import { Download, File as FileIcon, LoaderCircle, RotateCw, X } from "lucide-react";
import { useEffect, useRef, type ReactNode } from "react";
import { useFormats } from "@/i18n/format";
import { catalogue, useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { cn } from "@/ui/classes";
import { useDownload } from "./download";
import type { FileRef } from "./run-block";

const texts = catalogue(
  { download: "Download {name}", remove: "Remove {name}", retry: "Upload {name} again", uploading: "Uploading {name}" },
  { download: "下载 {name}", remove: "移除 {name}", retry: "重新上传 {name}", uploading: "正在上传 {name}" },
);
/** Types that a browser draws without running anything. SVG is not among them. */
const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const THUMBNAIL_BYTES = 8 * 1024 * 1024;
const box = "inline-flex h-10 max-w-full min-w-0 items-center gap-2 rounded-md border border-line bg-surface pr-1 pl-2 text-sm";

async function content(id: string): Promise<Blob> {
  const found: unknown = await getArtifactContent({ path: { artifact_id: id }, parseAs: "blob" });
  return found instanceof Blob ? found : new Blob([]);
}

export function FileChip({ file, onRemove }: { file: FileRef; onRemove?: () => void }): ReactNode {
  const t = useText(texts);
  const { bytes } = useFormats();
  const { download, isBusy } = useDownload(file.name, () => content(file.id));
  return (
    <span className={box}>
      <Thumbnail file={file} />
      <span dir="auto" className="min-w-0 truncate" title={file.name}>{file.name}</span>
      {file.bytes === undefined ? null : <span className="whitespace-nowrap text-muted">{bytes(file.bytes)}</span>}
      {onRemove === undefined ? (
        <Button kind="ghost" size="icon" className="size-7" busy={isBusy} aria-label={t("download", { name: file.name })} onClick={download}>{isBusy ? null : <Download aria-hidden />}</Button>
      ) : (
        <Button kind="ghost" size="icon" className="size-7" aria-label={t("remove", { name: file.name })} onClick={onRemove}><X aria-hidden /></Button>
      )}
    </span>
  );
}

function Thumbnail({ file }: { file: FileRef }): ReactNode {
  const drawn = PICTURES.has(file.mimeType) && (file.bytes ?? 0) <= THUMBNAIL_BYTES;
  const query = useQuery({ queryKey: ["artifact-content", file.id], queryFn: () => content(file.id), enabled: drawn, staleTime: Infinity, gcTime: 60_000, retry: false });
  return query.data === undefined || query.data.size === 0 ? <FileIcon aria-hidden className="text-muted" /> : <Picture blob={query.data} />;
}

function Picture({ blob }: { blob: Blob }): ReactNode {
  const image = useRef<HTMLImageElement>(null);
  useEffect(() => {
    const url = URL.createObjectURL(blob);
    if (image.current !== null) image.current.src = url;
    return () => URL.revokeObjectURL(url);
  }, [blob]);
  return <img ref={image} alt="" className="size-7 rounded-sm object-cover" />;
}

/** A file that is being uploaded, or whose upload failed. */
export function UploadChip({ name, progress, error, onRetry, onRemove }: { name: string; progress: number; error: string | undefined; onRetry: () => void; onRemove: () => void }): ReactNode {
  const t = useText(texts);
  return (
    <span className={cn(box, "relative overflow-hidden", error !== undefined && "h-auto min-h-10 border-fail/50")}>
      {error === undefined ? <LoaderCircle aria-hidden className="animate-spin text-muted" /> : <FileIcon aria-hidden className="text-fail" />}
      <span className="min-w-0 py-1">
        <span dir="auto" className="block truncate">{name}</span>
        {error === undefined ? null : <span className="block text-fail">{error}</span>}
      </span>
      {error === undefined ? null : <Button kind="ghost" size="icon" className="size-7" aria-label={t("retry", { name })} onClick={onRetry}><RotateCw aria-hidden /></Button>}
      <Button kind="ghost" size="icon" className="size-7" aria-label={t("remove", { name })} onClick={onRemove}><X aria-hidden /></Button>
      {error === undefined ? <progress aria-label={t("uploading", { name })} value={progress} max={1} className="absolute inset-x-0 bottom-0 h-0.5 w-full appearance-none [&::-webkit-progress-bar]:bg-transparent [&::-webkit-progress-value]:bg-accent" /> : null}
    </span>
  );
}
