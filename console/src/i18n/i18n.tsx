/** Texts in two languages. A catalogue is a record of texts per language; a missing Chinese key is a type error. */
import { createContext, use, useEffect, useMemo, useState, type ReactNode } from "react";

export type Language = "en" | "zh";
export type Fields = Record<string, string | number | undefined>;
export type Catalogue<K extends string> = Record<Language, Record<K, string>>;
/** Looks up a text. `{name}` is replaced by a field. A key with `count` has the forms `key_one` and `key_other`. */
export type Translate<K extends string> = (key: K, fields?: Fields) => string;

interface Choice {
  language: Language;
  setLanguage: (language: Language) => void;
}

const STORED = "bollard.language";
const Context = createContext<Choice>({ language: "en", setLanguage: () => undefined });

export function LanguageProvider({ children, initial }: { children: ReactNode; initial?: Language }): ReactNode {
  const [language, setLanguage] = useState<Language>(() => initial ?? chosenLanguage());
  useEffect(() => {
    document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
  }, [language]);
  const choice = useMemo(
    () => ({
      language,
      setLanguage: (next: Language) => {
        localStorage.setItem(STORED, next);
        setLanguage(next);
      },
    }),
    [language],
  );
  return <Context value={choice}>{children}</Context>;
}

export function chosenLanguage(): Language {
  const stored = localStorage.getItem(STORED);
  if (stored === "en" || stored === "zh") return stored;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

export function useLanguage(): Choice {
  return use(Context);
}

/** Checks that both languages have the same keys. */
export function catalogue<const K extends string>(en: Record<K, string>, zh: Record<NoInfer<K>, string>): Catalogue<K> {
  return { en, zh };
}

export function useText<K extends string>(texts: Catalogue<K>): Translate<PluralBase<K>> {
  const { language } = useLanguage();
  return useMemo(() => translator(texts, language), [texts, language]);
}

/** `runs_one` and `runs_other` are asked for as `runs`. */
export type PluralBase<K extends string> = K extends `${infer B}_one` | `${infer B}_other` ? B : K;

export function translator<K extends string>(texts: Catalogue<K>, language: Language): Translate<PluralBase<K>> {
  const own = texts[language] as Record<string, string>;
  return (key, fields = {}) => {
    const count = fields.count;
    const form = typeof count === "number" ? own[`${key}_${formatsOf(language).plurals.select(count)}`] ?? own[`${key}_other`] : undefined;
    return fill(form ?? own[key] ?? key, fields, language);
  };
}

export function fill(text: string, fields: Fields, language: Language = "en"): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = fields[name];
    if (value === undefined) return whole;
    return typeof value === "number" ? formatsOf(language).numbers.format(value) : value;
  });
}

interface TextFormats {
  plurals: Intl.PluralRules;
  numbers: Intl.NumberFormat;
}
const made: Partial<Record<Language, TextFormats>> = {};

/** Made once: each is slow to make, and every row of a list translates. */
function formatsOf(language: Language): TextFormats {
  return (made[language] ??= { plurals: new Intl.PluralRules(locale(language)), numbers: new Intl.NumberFormat(locale(language)) });
}

export function locale(language: Language): string {
  return language === "zh" ? "zh-CN" : "en";
}
