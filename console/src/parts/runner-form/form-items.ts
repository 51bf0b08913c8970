/** The form that a runner declares: items by type. The host validates; these rules only draw. */
import type { Language } from "@/i18n/i18n";

export type Localized = Readonly<Record<string, string | undefined>>;

export interface FormItem {
  name: string;
  type: string;
  label: Localized;
  description?: Localized;
  required?: boolean;
  default?: unknown;
  options?: readonly { value: unknown; label?: Localized }[];
  show_if?: Readonly<Record<string, unknown>>;
  /** Why nobody can change the value, which is the default. */
  locked?: Localized;
}
export type Config = Readonly<Record<string, unknown>>;

/** The text in the reader's language, else in English, else in any. */
export function localized(text: Localized | null | undefined, language: Language): string | undefined {
  if (text === null || text === undefined) return undefined;
  return text[language === "zh" ? "zh_Hans" : "en_US"] ?? text.en_US ?? Object.values(text)[0];
}

/** Whether an item is shown: each field that `show_if` names is shown and has one of the wanted values. A cycle ends as shown. */
export function isShown(item: FormItem, items: readonly FormItem[], config: Config, seen: readonly string[] = []): boolean {
  return Object.entries(item.show_if ?? {}).every(([name, wanted]) => {
    const other = items.find((each) => each.name === name);
    if (other !== undefined && !seen.includes(name) && !isShown(other, items, config, [...seen, item.name])) return false;
    const value = (other?.locked === undefined ? config[name] : undefined) ?? other?.default;
    return same(value, wanted) || (Array.isArray(wanted) && wanted.some((one) => same(value, one)));
  });
}

/** The value of a locked field in words: the labels of options, `true` and `false` as given, everything else as text or JSON. */
export function shownValue(item: FormItem, language: Language, yes: string, no: string): string {
  const word = (value: unknown): string => {
    const option = item.options?.find((each) => same(each.value, value));
    if (option?.label !== undefined) return localized(option.label, language) ?? "";
    return typeof value === "string" ? value : typeof value === "boolean" ? (value ? yes : no) : JSON.stringify(value);
  };
  return Array.isArray(item.default) ? item.default.map(word).join("\n") : word(item.default);
}

function same(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
