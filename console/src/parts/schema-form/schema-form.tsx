/** A form drawn from a JSON Schema. The host validates; its problems appear at the fields. */
import { useState, type ReactNode } from "react";
import { catalogue, useLanguage, useText, type Language } from "@/i18n/i18n";
import { text } from "@/i18n/text";
import { cn } from "@/ui/classes";
import { InlineCode } from "@/ui/data";
import { CheckField, Checkbox, Field, Input, Select, Textarea } from "@/ui/field";
import { controlOf, isFields, problemOf, withChoices, withField, type ControlKind, type Fields, type Schema, type Value } from "./schema";

const texts = catalogue(
  { en_US: "English", zh_Hans: "Chinese", yes: "Yes", no: "No", unset: "Not set", lines: "One entry per line", json: "JSON", notJson: "This is not JSON." },
  { en_US: "英文", zh_Hans: "中文", yes: "是", no: "否", unset: "未设置", lines: "每行一项", json: "JSON", notJson: "不是有效的 JSON。" },
);

/** The words of a field, by its path: `rules.groups`. */
export interface FieldNames {
  label: (path: string, language: Language) => string;
  /** `description` is the one of the schema, in English. */
  help: (path: string, language: Language, description: string | undefined) => string | undefined;
  /** A value of a choice in words. */
  value: (path: string, value: string, language: Language) => string;
}

export interface SchemaFormProps {
  schema: Schema;
  value: Fields;
  onChange: (value: Fields) => void;
  /** Problems by path. */
  problems?: Readonly<Record<string, string>>;
  names: FieldNames;
  /** Where the value stands in its resource, before the paths of its fields. */
  path?: string;
  /** What a field may name, by path: ids of other resources. */
  choices?: Readonly<Record<string, readonly string[]>>;
  /** Fields that are not shown, by path. */
  hidden?: readonly string[];
  /** Fields that show a value and cannot be changed, by path. */
  fixed?: readonly string[];
}

export function SchemaForm({ schema, value, onChange, problems = {}, names, path = "", choices = {}, hidden = [], fixed = [] }: SchemaFormProps): ReactNode {
  return <ObjectFields schema={schema} value={value} onChange={onChange} path={path} context={{ problems, names, choices, hidden, fixed }} />;
}

interface Context {
  problems: Readonly<Record<string, string>>;
  names: FieldNames;
  choices: Readonly<Record<string, readonly string[]>>;
  hidden: readonly string[];
  fixed: readonly string[];
}

function ObjectFields({ schema, value, onChange, path, context }: { schema: Schema; value: Fields; onChange: (value: Fields) => void; path: string; context: Context }): ReactNode {
  const entries = Object.entries(schema.properties ?? {}).filter(([name]) => !context.hidden.includes(join(path, name)));
  return (
    <div className="flex flex-col gap-4">
      {entries.map(([name, each]) => (
        <SchemaField
          key={name}
          name={name}
          path={join(path, name)}
          schema={each}
          required={schema.required?.includes(name) ?? false}
          value={value[name]}
          onChange={(next) => onChange(withField(value, name, next))}
          context={context}
        />
      ))}
    </div>
  );
}

/** These fit on one line, although the host accepts long ones. */
const ADDRESS = /(^|_)(url|proxy)$/;

interface SchemaFieldProps {
  name: string;
  path: string;
  schema: Schema;
  required: boolean;
  value: Value;
  onChange: (value: Value) => void;
  context: Context;
}

function SchemaField({ name, path, schema, required, value, onChange, context }: SchemaFieldProps): ReactNode {
  const { language } = useLanguage();
  const label = context.names.label(path, language);
  const help = context.names.help(path, language, schema.description);
  const offered = context.choices[path];
  const kind = ADDRESS.test(name) ? "text" : name === "label" && schema.type === "object" ? "locales" : controlOf(offered === undefined ? schema : withChoices(schema, offered, value));
  const word = (each: string): string => context.names.value(path, each, language);
  if (kind === "object") {
    return (
      <fieldset className="rounded-md border border-line p-3">
        <legend className="px-1 font-medium">{label}</legend>
        {help === undefined ? null : <p className="mb-3 text-sm text-muted"><InlineCode text={help} /></p>}
        <ObjectFields schema={schema} value={isFields(value) ? value : {}} onChange={(next) => onChange(Object.keys(next).length === 0 ? undefined : next)} path={path} context={context} />
      </fieldset>
    );
  }
  const disabled = context.fixed.includes(path);
  if (kind === "flag" && schema.nullable !== true) {
    return (
      <CheckField label={label} help={help} error={context.problems[path]} disabled={disabled} checked={(value ?? schema.default) === true} onChange={onChange} />
    );
  }
  if (kind === "locales") return <Locales label={label} disabled={disabled} value={isFields(value) ? value : {}} onChange={onChange} />;
  return (
    <Field label={label} help={help} error={context.problems[path]} required={required}>
      {(ids) => <Control kind={kind} schema={offered === undefined ? schema : withChoices(schema, offered, value)} required={required} value={value} onChange={onChange} word={word} ids={{ ...ids, disabled }} />}
    </Field>
  );
}

/** A text by locale: a field for each language of the page. */
function Locales({ label, disabled, value, onChange }: { label: string; disabled: boolean; value: Fields; onChange: (value: Value) => void }): ReactNode {
  const t = useText(texts);
  const set = (locale: string, typed: string): void => {
    const next = withField(value, locale, typed === "" ? undefined : typed);
    onChange(Object.keys(next).length === 0 ? undefined : next);
  };
  return (
    <div className="grid gap-4 sm:grid-cols-2">
      {(["en_US", "zh_Hans"] as const).map((locale) => (
        <Field key={locale} label={`${label} (${t(locale)})`}>{(ids) => <Input {...ids} disabled={disabled} value={text(value[locale])} onChange={(event) => set(locale, event.target.value)} />}</Field>
      ))}
    </div>
  );
}

interface ControlProps {
  kind: ControlKind;
  schema: Schema;
  required: boolean;
  value: Value;
  onChange: (value: Value) => void;
  /** A value of a choice in words. */
  word: (value: string) => string;
  ids: { id: string; disabled: boolean };
}

function Control({ kind, schema, required, value, onChange, word, ids }: ControlProps): ReactNode {
  const t = useText(texts);
  const shown = text(value);
  const placeholder = typeof schema.default === "object" || schema.default === undefined ? undefined : text(schema.default);
  const given = (typed: string): Value => (typed === "" && !required ? undefined : typed);
  switch (kind) {
    case "choice":
      return (
        <Select {...ids} value={shown === "" ? placeholder ?? "" : shown} onChange={(event) => onChange(given(event.target.value))}>
          {required || placeholder !== undefined ? null : <option value="">{t("unset")}</option>}
          {required && shown === "" && placeholder === undefined ? <option value="" disabled /> : null}
          {(schema.enum ?? []).map((each) => <option key={each} value={each}>{word(each)}</option>)}
        </Select>
      );
    case "flag":
      return (
        <Select {...ids} value={value === undefined || value === null ? "" : String(value === true)} onChange={(event) => onChange(event.target.value === "" ? undefined : event.target.value === "true")}>
          <option value="">{t("unset")}</option>
          <option value="true">{t("yes")}</option>
          <option value="false">{t("no")}</option>
        </Select>
      );
    case "number":
      return <Input {...ids} type="number" step={schema.type === "integer" ? 1 : "any"} min={schema.minimum} max={schema.maximum} placeholder={placeholder} value={shown} onChange={(event) => onChange(event.target.value === "" ? undefined : Number(event.target.value))} />;
    case "long-text":
      return <Textarea {...ids} value={shown} placeholder={placeholder} onChange={(event) => onChange(given(event.target.value))} />;
    case "texts":
      return <Lines {...ids} value={Array.isArray(value) ? (value as string[]) : []} onChange={onChange} placeholder={t("lines")} />;
    case "choices":
      return <Choices {...ids} options={schema.items?.enum ?? []} value={Array.isArray(value) ? (value as string[]) : Array.isArray(schema.default) ? (schema.default as string[]) : []} onChange={onChange} word={word} />;
    case "json":
    case "object":
      return <JsonText {...ids} schema={schema} value={value} onChange={onChange} />;
    default:
      return <Input {...ids} type={kind === "password" ? "password" : "text"} autoComplete="off" placeholder={placeholder} maxLength={schema.maxLength} value={shown} onChange={(event) => onChange(given(event.target.value))} />;
  }
}

interface EditorProps<T> {
  id: string;
  disabled: boolean;
  value: T;
  onChange: (value: Value) => void;
}

/** A list of texts, one per line. The typed text is kept as it is, so that a new line can be typed. */
function Lines({ value, onChange, ...ids }: EditorProps<readonly string[]> & { placeholder: string }): ReactNode {
  const [typed, setTyped] = useState(() => value.join("\n"));
  return (
    <Textarea
      {...ids}
      className="min-h-16"
      value={typed}
      onChange={(event) => {
        setTyped(event.target.value);
        const lines = event.target.value.split("\n").map((line) => line.trim()).filter((line) => line !== "");
        onChange(lines.length === 0 ? undefined : lines);
      }}
    />
  );
}

function Choices({ id, disabled, options, value, onChange, word }: EditorProps<readonly string[]> & { options: readonly string[]; word: (value: string) => string }): ReactNode {
  return (
    <div id={id} className="grid max-h-64 grid-cols-2 gap-x-4 gap-y-1 overflow-y-auto rounded-md border border-line p-2 scroll-thin max-sm:grid-cols-1">
      {options.map((each) => (
        <label key={each} className="flex items-center gap-2">
          <Checkbox disabled={disabled} checked={value.includes(each)} onChange={(event) => onChange(event.target.checked ? [...value, each] : value.filter((one) => one !== each))} />
          <span className={cn("min-w-0 wrap-anywhere", word(each) === each && "font-mono text-sm")}>{word(each)}</span>
        </label>
      ))}
    </div>
  );
}

function JsonText({ id, disabled, schema, value, onChange }: EditorProps<Value> & { schema: Schema }): ReactNode {
  const t = useText(texts);
  const [typed, setTyped] = useState(() => (value === undefined ? "" : JSON.stringify(value, null, 2)));
  const [problem, setProblem] = useState<string>();
  const take = (text: string): void => {
    setTyped(text);
    if (text.trim() === "") {
      setProblem(undefined);
      onChange(undefined);
      return;
    }
    try {
      const parsed = JSON.parse(text) as Value;
      setProblem(problemOf(parsed, schema));
      onChange(parsed);
    } catch {
      setProblem(t("notJson"));
      onChange(text); // the host refuses it: an older value must not be saved in its place
    }
  };
  return (
    <>
      <Textarea id={id} disabled={disabled} spellCheck={false} className="font-mono text-sm" placeholder={t("json")} aria-invalid={problem === undefined ? undefined : true} value={typed} onChange={(event) => take(event.target.value)} />
      {problem === undefined ? null : <p className="text-sm text-fail">{problem}</p>}
    </>
  );
}

function join(path: string, name: string): string {
  return path === "" ? name : `${path}.${name}`;
}
