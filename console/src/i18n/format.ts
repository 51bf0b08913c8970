/** Times, durations, sizes and costs in the reader's language and zone. Times of the API are seconds since 1970. */
import { locale, useLanguage, type Language } from "./i18n";

export interface Formats {
  /** “3 minutes ago”, or a date where that is long ago. */
  ago: (seconds: number, now?: number) => string;
  /** The absolute time with its zone: that of the reader, or a named one. */
  absolute: (seconds: number, zone?: string) => string;
  /** The time of day. */
  clock: (seconds: number) => string;
  duration: (ms: number) => string;
  bytes: (count: number) => string;
  number: (value: number) => string;
  /** A cost in US dollars, with as many digits as it needs. */
  cost: (dollars: number) => string;
}

const LONG = { dateStyle: "medium", timeStyle: "long" } as const;
const STEPS: readonly [Intl.RelativeTimeFormatUnit, number][] = [
  ["second", 60],
  ["minute", 3_600],
  ["hour", 86_400],
  ["day", 7 * 86_400],
];
const SECONDS: Partial<Record<Intl.RelativeTimeFormatUnit, number>> = { second: 1, minute: 60, hour: 3_600, day: 86_400 };

export function useFormats(): Formats {
  return formats(useLanguage().language);
}

const made = new Map<Language, Formats>();

/** One set for all: a formatter is slow to make, and a list of thousands of rows asks for many. */
export function formats(language: Language): Formats {
  const known = made.get(language) ?? makeFormats(language);
  made.set(language, known);
  return known;
}

function makeFormats(language: Language): Formats {
  const tag = locale(language);
  const relative = new Intl.RelativeTimeFormat(tag, { numeric: "auto", style: "short" });
  const absolute = new Intl.DateTimeFormat(tag, LONG);
  const day = new Intl.DateTimeFormat(tag, { dateStyle: "medium" });
  const clock = new Intl.DateTimeFormat(tag, { timeStyle: "medium" });
  const units = new Map<string, Intl.NumberFormat>();
  const unit = (value: number, name: string, digits: number): string => {
    const key = `${name} ${digits}`;
    const format = units.get(key) ?? new Intl.NumberFormat(tag, { style: "unit", unit: name, unitDisplay: name === "byte" ? "long" : "short", maximumFractionDigits: digits });
    units.set(key, format);
    return format.format(value);
  };
  const plain = new Intl.NumberFormat(tag);
  /** “5 min”, or “5 min 3 sec”. */
  const parts = (ms: number, [[large, size], [small, part]]: readonly [readonly [string, number], readonly [string, number]]): string => {
    const rest = Math.floor((ms % size) / part);
    return unit(Math.floor(ms / size), large, 0) + (rest === 0 ? "" : ` ${unit(rest, small, 0)}`);
  };
  return {
    ago(seconds, now = Date.now() / 1000) {
      const past = seconds - now;
      const step = STEPS.find(([, limit]) => Math.abs(past) < limit);
      if (step === undefined) return day.format(seconds * 1000);
      return relative.format(Math.round(past / (SECONDS[step[0]] ?? 1)), step[0]);
    },
    absolute: (seconds, zone) => (zone === undefined ? absolute : new Intl.DateTimeFormat(tag, { ...LONG, timeZone: zone })).format(seconds * 1000),
    clock: (seconds) => clock.format(seconds * 1000),
    duration(ms) {
      if (ms < 1_000) return unit(Math.max(0, Math.round(ms)), "millisecond", 0);
      if (ms < 60_000) return unit(ms / 1_000, "second", ms < 10_000 ? 1 : 0);
      if (ms < 3_600_000) return parts(ms, [["minute", 60_000], ["second", 1_000]]);
      return parts(ms, [["hour", 3_600_000], ["minute", 60_000]]);
    },
    bytes(count) {
      if (count < 1_024) return unit(count, "byte", 0);
      if (count < 1_048_576) return unit(count / 1_024, "kilobyte", 1);
      if (count < 1_073_741_824) return unit(count / 1_048_576, "megabyte", 1);
      return unit(count / 1_073_741_824, "gigabyte", 2);
    },
    number: (value) => plain.format(value),
    cost: (dollars) =>
      new Intl.NumberFormat(tag, { style: "currency", currency: "USD", maximumFractionDigits: dollars !== 0 && Math.abs(dollars) < 0.01 ? 6 : 2 }).format(dollars),
  };
}
