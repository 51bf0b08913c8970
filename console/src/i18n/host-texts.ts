/** Chinese sentences for the errors of the host. The texts and the rules are those of the command line (`cli/language.py`). */

import { text as plain } from "./text";

export type Details = Readonly<Record<string, unknown>>;
export interface HostTexts {
  /** By `code.reason`, or by `code` alone. */
  reasons: Record<string, { message: string; hint: string }>;
  /** By the type of a problem. */
  problems: Record<string, string>;
}
export interface Sentence {
  message: string;
  hint: string;
}
export interface ProblemTexts {
  hostError: (code: string, details: Details, message: string, hint: string) => Sentence;
  problem: (details: Details) => string;
  /** The hint of a problem. */
  remedy: (details: Details, said: string) => string;
}

const CHINESE = /[\u4e00-\u9fff]/;

export function problemTexts({ reasons, problems }: HostTexts): ProblemTexts {
  const quote = (said: string): string => (said === "" || CHINESE.test(said) ? said : format(problems.quoted ?? "{problem}", { problem: said }) ?? said);

  function hostError(code: string, details: Details, message: string, hint: string): Sentence {
    const known = reasons[`${code}.${text(details.reason)}`];
    if (known !== undefined) {
      const fields: Details = { ...details, problem: problem(details), place: place(details, ""), field: place({}, text(details.field)), remedy: remedy(details, text(details.advice)) };
      const filled = format(known.message, fields);
      const advice = format(known.hint, fields);
      if (filled !== undefined && advice !== undefined) return { message: filled, hint: advice };
    }
    const general = reasons[code];
    if (general === undefined) return { message, hint };
    const original = (said: string): string => format(problems.original ?? "{problem}", { problem: said }) ?? said;
    return { message: general.message + original(message), hint: hint === "" ? general.hint : general.hint + original(hint) };
  }

  function place(details: Details, otherwise: string): string {
    return isDetails(details.place) ? problem({ problem: otherwise, ...details.place }) : problems[`field.${otherwise}`] ?? otherwise;
  }

  function problem(details: Details): string {
    if (Array.isArray(details.problems)) {
      const lines = (details.problems as Details[]).map((one) => format(problems.of_field ?? "{field}: {problem}", { field: place(one, text(one.field)), problem: problem(one) }) ?? "");
      return lines.join(problems.and ?? "; ");
    }
    const said = text(details.problem);
    if (isDetails(details.cause) && isDetails(details.cause.details)) return hostError(text(details.cause.code), details.cause.details, said, "").message;
    const known = problems[text(details.problem_type)];
    if (known === undefined) return quote(said);
    return format(known, isDetails(details.inner) ? { ...details, inner: problem(details.inner) } : details) ?? quote(said);
  }

  function remedy(details: Details, said: string): string {
    if (isDetails(details.cause) && isDetails(details.cause.details)) return hostError(text(details.cause.code), details.cause.details, "", said).hint;
    const known = problems[`${text(details.problem_type)}.hint`];
    return known === undefined ? quote(said) : format(known, details) ?? quote(said);
  }

  return { hostError, problem, remedy };
}

/** Fills `{name}`, `{name!r}` and `{seconds:g}`; `{{` is a brace. `undefined` if a field is missing: a host of another version sends other details. */
export function format(template: string, fields: Details): string | undefined {
  const missing = new Set<string>();
  const filled = template.replace(/\{\{|\}\}|\{(\w+)(![rs])?(?::[^}]*)?\}/g, (found, name: string | undefined, shown: string | undefined) => {
    if (name === undefined) return found.charAt(0);
    if (!(name in fields)) missing.add(name);
    const value = text(fields[name]);
    return shown === "!r" && typeof fields[name] === "string" ? `'${value}'` : value;
  });
  return missing.size === 0 ? filled : undefined;
}

function text(value: unknown): string {
  return Array.isArray(value) ? value.map(text).join(", ") : plain(value);
}

function isDetails(value: unknown): value is Details {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
