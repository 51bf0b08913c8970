import type { ReactNode } from "react";
import { useFormats } from "@/i18n/format";
import { useText } from "@/i18n/i18n";
import { text } from "@/i18n/text";
import { Id, Time } from "@/ui/data";
import { RuntimeState } from "./runtime-state";
import { texts } from "./texts";

/** A value, by the form of its name and value. */
export function Cell({ name, value }: { name: string; value: unknown }): ReactNode {
  const t = useText(texts);
  const { bytes } = useFormats();
  if (value === undefined || value === null || value === "") return <span className="text-muted">—</span>;
  if (typeof value === "boolean") return value ? t("yes") : t("no");
  if (typeof value === "number" && name.endsWith("_at")) return <Time at={value} />;
  if (typeof value === "number" && name.endsWith("_bytes")) return bytes(value);
  if (name === "status") return <RuntimeState status={text(value)} />; // of the kinds here only runtimes have one
  if (Array.isArray(value)) return value.length === 0 ? "—" : <span className="line-clamp-2">{value.join(", ")}</span>;
  if (name.endsWith("_id") && typeof value === "string" && value.length > 24) return <Id id={value} />;
  return <span className="line-clamp-2">{text(value)}</span>;
}
