/** What an approval asks for: the text that the host rendered, byte for byte, and its attached contents. */
import { getApprovalContent, type Approval } from "@bollard/client";
import { useState, type ReactNode } from "react";
import { useFormats } from "@/i18n/format";
import { useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { ErrorNote } from "@/ui/feedback";
import { approvalTexts } from "./approval-texts";

type Line = Approval["display"]["lines"][number];

/** Facts about the call that matter at first sight; the rest is under details. */
const FIRST = ["agent", "requester", "target", "effects", "why"];

export function ApprovalRequest({ approval, onOpened }: { approval: Approval; onOpened: (number: number) => void }): ReactNode {
  const t = useText(approvalTexts);
  const of = (part: Line["part"]): Line[] => approval.display.lines.filter((line) => line.part === part);
  const about = of("about");
  const explanation = of("explanation");
  return (
    <div className="flex flex-col gap-3">
      <div role="group" aria-label={t("what")} className="rounded-md border border-line-strong/50 bg-bg">
        {of("arguments").length === 0 ? <p className="px-3 py-2 text-muted">{t("noArguments")}</p> : null}
        <Lines lines={of("arguments")} name={(line) => line.place.replace(/^arguments\./, "")} />
        {approval.display.attached.map((content) => <Attached key={content.number} approvalId={approval.approval_id} content={content} onOpened={onOpened} />)}
      </div>
      <Lines lines={about.filter((line) => FIRST.includes(line.place))} name={(line) => line.label} quiet />
      {explanation.length === 0 ? null : (
        <div>
          <p className="text-sm text-muted">{t("says")}</p>
          <div className="border-l-2 border-line-strong/50 pl-1"><Lines lines={explanation} name={() => ""} quiet /></div>
        </div>
      )}
      <details>
        <summary className="w-fit text-sm text-muted">{t("details")}</summary>
        <Lines lines={about.filter((line) => !FIRST.includes(line.place) && line.place !== "risk")} name={(line) => line.label} quiet />
        <p className="px-3 text-sm text-muted">{t("digest")} <code className="font-mono">{approval.digest}</code></p>
      </details>
    </div>
  );
}

/** Labels stand in their own column, so that a text cannot imitate one. */
function Lines({ lines, name, quiet = false }: { lines: readonly Line[]; name: (line: Line) => string; quiet?: boolean }): ReactNode {
  const t = useText(approvalTexts);
  if (lines.length === 0) return null;
  return (
    <dl className={quiet ? "text-sm" : "py-1 text-base"}>
      {lines.map((line, index) => (
        <div key={index} className="flex gap-3 px-3 py-0.5 max-sm:flex-col max-sm:gap-0">
          <dt className="w-28 shrink-0 text-sm leading-[inherit] text-muted max-sm:w-auto">{name(line)}</dt>
          <dd className="min-w-0 flex-1">
            <code dir="ltr" className="font-mono whitespace-pre-wrap [unicode-bidi:isolate]">{line.text}</code>
            {line.notes?.map((note) => <p key={note} className="text-sm text-wait">{t(`note.${note}`)}</p>)}
          </dd>
        </div>
      ))}
    </dl>
  );
}

const PAGE_LINES = 100;

function Attached({ approvalId, content, onOpened }: { approvalId: string; content: Approval["display"]["attached"][number]; onOpened: (number: number) => void }): ReactNode {
  const t = useText(approvalTexts);
  const { bytes } = useFormats();
  const [lines, setLines] = useState<readonly string[]>([]);
  const [total, setTotal] = useState<number>();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const load = async (): Promise<void> => {
    setBusy(true);
    setError(undefined);
    try {
      const page = await getApprovalContent({ path: { approval_id: approvalId, number: String(content.number) }, query: { line: lines.length, limit: PAGE_LINES } });
      setLines([...lines, ...page.lines]);
      setTotal(page.total);
      if (lines.length + page.lines.length >= page.total || page.lines.length === 0) onOpened(content.number);
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  const rest = (total ?? 0) - lines.length;
  return (
    <div className="flex flex-col gap-1 border-t border-line px-3 py-2">
      <div className="flex flex-wrap items-center gap-2 text-sm">
        <span className="min-w-0 flex-1">{t("attached", { place: content.place.replace(/^arguments\./, ""), size: bytes(content.bytes) })}</span>
        {total === undefined ? <Button size="sm" busy={busy} onClick={() => void load()}>{t("openContent")}</Button> : null}
      </div>
      {lines.length === 0 ? null : <pre tabIndex={0} dir="ltr" className="max-h-72 overflow-auto rounded-md bg-raised p-2 font-mono text-sm whitespace-pre-wrap scroll-thin">{lines.join("\n")}</pre>}
      {total !== undefined && rest > 0 ? <Button size="sm" className="self-start" busy={busy} onClick={() => void load()}>{t("openMore", { rest })}</Button> : null}
      {error === undefined ? null : <ErrorNote error={error} />}
    </div>
  );
}
