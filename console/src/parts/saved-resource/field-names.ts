/** Labels, help and values of a kind's fields, by path. */
import type { Language } from "@/i18n/i18n";
import { humanised } from "@/parts/schema-form/schema";
import type { FieldNames } from "@/parts/schema-form/schema-form";
import type { SavedKind } from "./described";
import { chineseHelp, chineseLabels, englishHelp, englishLabels, valueWords } from "./field-words";

export function fieldLabel(name: string, language: Language, ...keys: readonly string[]): string {
  const find = (table: Readonly<Record<string, string>>): string | undefined => [...keys, name].map((key) => table[key]).find((each) => each !== undefined);
  const own = language === "zh" ? find(chineseLabels) : find(englishLabels);
  return own ?? englishLabels[name] ?? humanised(name.replace(/_(id|at|bytes)$/, "").replace(/_s$/, " (seconds)"));
}

export function hasChinese(name: string): boolean {
  return name in chineseLabels;
}

export function fieldNames(kind: SavedKind): FieldNames {
  return {
    label: (path, language) => fieldLabel(path.split(".").at(-1) ?? path, language, `${kind}.${path}`),
    help: (path, language, description) => {
      const key = `${kind}.${path}`;
      const own = language === "zh" ? chineseHelp[key] ?? chineseHelp[path] : englishHelp[key] ?? description;
      return own === "" ? undefined : own;
    },
    value: (path, value, language) => valueWords[`${kind}.${path}`]?.[value]?.[language === "zh" ? 1 : 0] ?? value,
  };
}
