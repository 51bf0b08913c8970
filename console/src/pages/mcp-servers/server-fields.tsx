import { useState, type ReactNode } from "react";
import { useText } from "@/i18n/i18n";
import { text } from "@/i18n/text";
import { described } from "@/parts/saved-resource/described";
import { isFields, withField, type Fields } from "@/parts/schema-form/schema";
import { SchemaForm } from "@/parts/schema-form/schema-form";
import { fieldNames } from "@/parts/saved-resource/field-names";
import { Button } from "@/ui/button";
import { Checkbox, Field, Input, Textarea } from "@/ui/field";
import { texts } from "./texts";

const OWN = ["revision", "server_id", "command", "args", "env", "url", "headers", "auth"];

/** Either a program or an address, with its secrets by name. */
export function ServerFields({ fields, setFields, problems }: { fields: Fields; setFields: (fields: Fields) => void; problems: Readonly<Record<string, string>> }): ReactNode {
  const t = useText(texts);
  const remote = fields.url !== undefined;
  const set = (name: string, value: unknown): void => setFields(withField(fields, name, value));
  const choose = (next: "command" | "url"): void => {
    const rest = OWN.slice(2).reduce((all, name) => withField(all, name, undefined), fields);
    setFields({ ...rest, [next]: "" });
  };
  return (
    <>
      <div role="radiogroup" aria-label={t("kind")} className="flex gap-1">
        <Button size="sm" role="radio" aria-checked={!remote} kind={remote ? "secondary" : "primary"} onClick={() => choose("command")}>{t("program")}</Button>
        <Button size="sm" role="radio" aria-checked={remote} kind={remote ? "primary" : "secondary"} onClick={() => choose("url")}>{t("address")}</Button>
      </div>
      {remote ? (
        <>
          <Field label={t("url")} help={t("urlHelp")} error={problems.url} required>{(ids) => <Input {...ids} className="font-mono" placeholder="https://mcp.example.org/mcp" value={text(fields.url)} onChange={(event) => set("url", event.target.value)} />}</Field>
          <Pairs key="headers" label={t("headers")} help={t("headersHelp")} error={problems.headers} value={fields.headers} onChange={(value) => set("headers", value)} />
          <label className="flex items-center gap-2"><Checkbox checked={fields.auth === "oauth"} onChange={(event) => set("auth", event.target.checked ? "oauth" : undefined)} />{t("oauth")}</label>
        </>
      ) : (
        <>
          <Field label={t("command")} help={t("commandHelp")} error={problems.command} required>{(ids) => <Input {...ids} className="font-mono" placeholder="npx" value={text(fields.command)} onChange={(event) => set("command", event.target.value)} />}</Field>
          <Args value={fields.args} error={problems.args} onChange={(value) => set("args", value)} />
          <Pairs key="env" label={t("env")} help={t("envHelp")} error={problems.env} value={fields.env} onChange={(value) => set("env", value)} />
        </>
      )}
      <details>
        <summary className="text-muted">{t("more")}</summary>
        <div className="mt-3">
          <SchemaForm schema={described("mcp-servers").body ?? {}} value={fields} onChange={setFields} names={fieldNames("mcp-servers")} hidden={remote ? OWN : [...OWN, "client_id", "client_secret", "scopes"]} problems={problems} />
        </div>
      </details>
    </>
  );
}

function Args({ value, error, onChange }: { value: unknown; error: string | undefined; onChange: (value: string[] | undefined) => void }): ReactNode {
  const t = useText(texts);
  const [typed, setTyped] = useState(() => (Array.isArray(value) ? value.map(String).join("\n") : ""));
  const take = (words: string): void => {
    setTyped(words);
    onChange(words === "" ? undefined : words.split("\n").filter((line) => line !== ""));
  };
  return <Field label={t("args")} help={t("argsHelp")} error={error}>{(ids) => <Textarea {...ids} className="min-h-16 font-mono text-sm" spellCheck={false} value={typed} onChange={(event) => take(event.target.value)} />}</Field>;
}

interface PairsProps {
  label: string;
  help: string;
  error: string | undefined;
  value: unknown;
  onChange: (value: Fields | undefined) => void;
}

/** Names and values, one pair per line. */
function Pairs({ label, help, error, value, onChange }: PairsProps): ReactNode {
  const t = useText(texts);
  const [typed, setTyped] = useState(() => (isFields(value) ? Object.entries(value).map(([name, each]) => `${name}=${text(each)}`).join("\n") : ""));
  const lines = typed.split("\n").filter((line) => line.trim() !== "");
  const bad = lines.find((line) => line.indexOf("=") < 1);
  const take = (words: string): void => {
    setTyped(words);
    const pairs = words.split("\n").filter((line) => line.trim() !== "").map((line) => {
      const at = line.indexOf("=");
      return at < 1 ? [line.trim(), ""] as const : [line.slice(0, at).trim(), line.slice(at + 1).trim()] as const;
    });
    onChange(pairs.length === 0 ? undefined : Object.fromEntries(pairs));
  };
  return <Field label={label} help={help} error={error ?? (bad === undefined ? undefined : t("badLine", { line: bad }))}>{(ids) => <Textarea {...ids} className="min-h-16 font-mono text-sm" spellCheck={false} value={typed} onChange={(event) => take(event.target.value)} />}</Field>;
}
