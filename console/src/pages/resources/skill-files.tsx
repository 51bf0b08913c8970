/** The files of a skill: a folder whose text files are read in the page. */
import { FileText } from "lucide-react";
import { useState, type ReactNode } from "react";
import { useText } from "@/i18n/i18n";
import { useFormats } from "@/i18n/format";
import { Field, FileInput } from "@/ui/field";
import { skillFiles, type SkillFile } from "./skill-folder";
import { texts } from "./texts";

export function SkillFiles({ value, onChange }: { value: unknown; onChange: (files: readonly SkillFile[] | undefined) => void }): ReactNode {
  const t = useText(texts);
  const { bytes } = useFormats();
  const [unread, setUnread] = useState<readonly string[]>([]);
  const [problem, setProblem] = useState<string>();
  const files = Array.isArray(value) ? (value as SkillFile[]) : [];
  const take = async (picked: readonly File[]): Promise<void> => {
    const read = await skillFiles(picked);
    setUnread(read.unread);
    setProblem(read.files.some(({ path }) => path === "SKILL.md") ? undefined : t("noSkillFile"));
    onChange(read.files.length === 0 ? undefined : read.files);
  };
  return (
    <Field label={t("skillFolder")} help={t("skillFolderHelp")} error={problem} required>
      {(ids) => (
        <>
          <FileInput {...ids} label={t("chooseFolder")} aria-label={t("chooseFolder")} multiple {...{ webkitdirectory: "" }} onChange={(event) => void take([...(event.target.files ?? [])])} />
          {files.length === 0 ? null : (
            <ul className="mt-2 divide-y divide-line rounded-md border border-line">
              {files.map(({ path, text }) => (
                <li key={path} className="flex items-center gap-2 px-3 py-1.5">
                  <FileText aria-hidden className="text-muted" />
                  <span className="min-w-0 flex-1 font-mono text-sm wrap-anywhere">{path}</span>
                  <span className="text-sm text-muted">{bytes(new Blob([text]).size)}</span>
                </li>
              ))}
            </ul>
          )}
          {unread.length === 0 ? null : <p className="text-sm text-wait">{t("notText", { names: unread.join(", ") })}</p>}
        </>
      )}
    </Field>
  );
}
