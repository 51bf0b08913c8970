/** The sentence and hint of an error in the reader's language: looked up by code and reason, never by the English text. */
import { ApiError } from "@bollard/client";
import { useEffect, useState } from "react";
import { problemTexts, type Details, type HostTexts } from "./host-texts";
import { catalogue, translator, useLanguage, type Language } from "./i18n";

export interface ErrorText {
  message: string;
  hint: string | undefined;
  code: string;
}

const own = catalogue(
  {
    unreachable: "The host does not answer.",
    "unreachable.hint": "Check that it runs and that the network works. The page tries again by itself.",
    bad_answer: "The answer is not from a Bollard host.",
    "bad_answer.hint": "Check the proxy in front of the host.",
    bug: "The page failed.",
    "bug.hint": "Reload it. If it happens again, report it with the details.",
  },
  {
    unreachable: "主机没有响应。",
    "unreachable.hint": "请检查主机是否在运行、网络是否正常。页面会自动重试。",
    bad_answer: "应答不是来自 Bollard 主机。",
    "bad_answer.hint": "请检查主机前面的代理。",
    bug: "页面出错了。",
    "bug.hint": "请刷新页面。如果再次出现，请附上详情反馈。",
  },
);

let hostTexts: HostTexts | undefined;

/** Loads the Chinese texts of the host's errors once; English needs none, because the host speaks English. */
async function loadHostTexts(): Promise<void> {
  hostTexts ??= (await import("./generated/errors.zh.json")).default;
}

export function errorText(error: unknown, language: Language): ErrorText {
  const t = translator(own, language);
  if (!(error instanceof ApiError)) return { message: t("bug"), hint: t("bug.hint"), code: error instanceof Error ? error.message : "unknown" };
  if (error.code === "unreachable" || error.code === "bad_answer") {
    return { message: t(error.code), hint: t(`${error.code}.hint`), code: error.code };
  }
  const { message, hint } = hostText(error.code, error.details, error.message, error.hint, language);
  return { message, hint, code: error.code };
}

/** The sentence of an error of the host, of a request or of a run, by its code and its details. */
export function hostText(code: string, details: Details, message: string, hint: string | undefined, language: Language): { message: string; hint: string | undefined } {
  if (language === "zh" && hostTexts !== undefined) {
    const found = problemTexts(hostTexts).hostError(code, details, message, hint ?? "");
    return { message: found.message, hint: found.hint === "" ? undefined : found.hint };
  }
  return { message: sentence(message), hint: hint === undefined || hint === "" ? undefined : sentence(hint) };
}

/** The problems of a rejected form by field: `rules.groups` → sentence. */
export function fieldProblems(error: unknown, language: Language): Record<string, string> {
  if (!(error instanceof ApiError)) return {};
  const { details } = error;
  const several = Array.isArray(details.problems) ? (details.problems as Details[]) : [];
  const found: Record<string, string> = {};
  const zh = language === "zh" && hostTexts !== undefined ? problemTexts(hostTexts) : undefined;
  for (const each of several) {
    const field = typeof each.field === "string" ? each.field : "";
    found[inForm(field)] = zh?.problem(each) ?? sentence(typeof each.problem === "string" ? each.problem : "");
  }
  if (several.length === 0 && typeof details.field === "string") {
    found[inForm(details.field)] = zh === undefined && typeof details.problem === "string" ? sentence(details.problem) : errorText(error, language).message;
  }
  return found;
}

/** The host names a field of a saved resource with its noun in front: `channel.rules.groups`. */
function inForm(field: string): string {
  const [noun = "", ...rest] = field.split(".");
  return NOUNS.has(noun) && rest.length > 0 ? rest.join(".") : field;
}

const NOUNS = new Set(["agent", "binding", "bot", "channel", "hook", "knowledge", "mcp_server", "model", "schedule", "subscription"]);

/** The host writes sentences without capitals and full stops, as command lines do. */
function sentence(text: string): string {
  const first = /^[a-z]+\b(?![_.(/:])/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
  return /[.!?:…`)]$/.test(first) ? first : `${first}.`;
}

export function useErrorText(error: unknown): ErrorText {
  const language = useHostLanguage();
  return errorText(error, language);
}

/** The language, for a component that shows sentences of the host. It renders again when the Chinese ones have arrived. */
function useHostLanguage(): Language {
  const { language } = useLanguage();
  const [, setLoaded] = useState(false);
  useEffect(() => {
    if (language === "zh" && hostTexts === undefined) void loadHostTexts().then(() => setLoaded(true));
  }, [language]);
  return language;
}

export interface HostWords {
  /** What is wrong with a part of the host, by the type in its details. */
  problem: (said: string, details?: unknown) => string;
  /** What to do about it. */
  remedy: (said: string, details?: unknown) => string;
  /** The sentence and hint of a code. */
  error: (code: string, details: Details, message: string, hint: string | undefined) => { message: string; hint: string | undefined };
}

/** The sentences of the host in answers that are no errors: problems of plugins, servers and documents, warnings of agents. */
export function useHostWords(): HostWords {
  const language = useHostLanguage();
  const texts = language === "zh" && hostTexts !== undefined ? problemTexts(hostTexts) : undefined;
  const of = (details: unknown): Details => (typeof details === "object" && details !== null ? (details as Details) : {});
  return {
    problem: (said, details) => (said === "" ? "" : texts?.problem({ problem: said, ...of(details) }) ?? sentence(said)),
    remedy: (said, details) => (said === "" ? "" : texts?.remedy(of(details), said) ?? sentence(said)),
    error: (code, details, message, hint) => hostText(code, details, message, hint, language),
  };
}
