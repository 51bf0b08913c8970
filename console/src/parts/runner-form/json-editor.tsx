import { useState, type ReactNode } from "react";
import { catalogue, useText } from "@/i18n/i18n";
import { Textarea } from "@/ui/field";

const texts = catalogue({ notJson: "This is not JSON." }, { notJson: "不是有效的 JSON。" });

/** Edits a value as JSON. Text that is not JSON is passed on as text, so that the host refuses it and no older value is saved. */
export function JsonEditor({ id, value, onChange }: { id: string; value: unknown; onChange: (value: unknown) => void }): ReactNode {
  const t = useText(texts);
  const [typed, setTyped] = useState(() => (value === undefined ? "" : JSON.stringify(value, null, 2)));
  const [isWrong, setWrong] = useState(false);
  const take = (text: string): void => {
    setTyped(text);
    try {
      onChange(text.trim() === "" ? undefined : (JSON.parse(text) as unknown));
      setWrong(false);
    } catch {
      onChange(text);
      setWrong(true);
    }
  };
  return (
    <>
      <Textarea id={id} spellCheck={false} className="font-mono text-sm" aria-invalid={isWrong || undefined} value={typed} onChange={(event) => take(event.target.value)} />
      {isWrong ? <p className="text-sm text-fail">{t("notJson")}</p> : null}
    </>
  );
}
