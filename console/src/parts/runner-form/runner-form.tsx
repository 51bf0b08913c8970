/** Draws the form of a runner. Selectors offer what the workspace has. */
import { listCapabilities, listFiles, listKnowledgeBases, listModels } from "@bollard/client";
import { useQuery } from "@tanstack/react-query";
import { Lock } from "lucide-react";
import { useId, type ReactNode } from "react";
import { useSession } from "@/api/session";
import { catalogue, useLanguage, useText } from "@/i18n/i18n";
import { text } from "@/i18n/text";
import { withField } from "@/parts/schema-form/schema";
import { CopyButton } from "@/ui/feedback";
import { CheckField, Checkbox, Field, Input, Select, Textarea } from "@/ui/field";
import { JsonEditor } from "./json-editor";
import { isShown, localized, shownValue, type Config, type FormItem } from "./form-items";

const texts = catalogue(
  { none: "None", fallbacks: "Fallbacks, in order", nothing: "The workspace has none.", lines: "One entry per line", later: "Machines of users come later.", locked: "Locked: {why}", yes: "Yes", no: "No" },
  { none: "无", fallbacks: "备用模型（按顺序）", nothing: "工作区中没有可选项。", lines: "每行一项", later: "用户自己的机器将在以后支持。", locked: "已锁定：{why}", yes: "是", no: "否" },
);

export interface RunnerFormProps {
  items: readonly FormItem[];
  config: Config;
  onChange: (config: Config) => void;
  /** Problems by the name of the item. */
  problems: Readonly<Record<string, string>>;
}

export function RunnerForm({ items, config, onChange, problems }: RunnerFormProps): ReactNode {
  const { language } = useLanguage();
  const choices = useChoices();
  return (
    <div className="flex flex-col gap-4">
      {items.filter((item) => isShown(item, items, config)).map((item) => {
        const set = (value: unknown): void => onChange(withField(config, item.name, value));
        const value = config[item.name] ?? item.default;
        const words = { label: localized(item.label, language) ?? item.name, help: localized(item.description, language), error: problems[item.name] };
        return (
          <div key={item.name} data-policy={`/config/${item.name}`}>
            {item.type === "display" ? <DisplayRow {...words} value={text(item.default)} />
            : item.locked !== undefined ? <LockedField {...words} item={item} />
            : item.type === "boolean" ? <CheckField {...words} checked={value === true} onChange={set} />
            : (
              <Field {...words} required={item.required ?? false}>
                {(ids) => <Control item={item} value={value} set={set} ids={ids} choices={choices} />}
              </Field>
            )}
          </div>
        );
      })}
    </div>
  );
}

interface Words {
  label: string;
  help: string | undefined;
  error: string | undefined;
}

/** A text to use elsewhere. It is no part of the configuration. */
function DisplayRow({ label, help, error, value }: Words & { value: string }): ReactNode {
  const id = useId();
  return (
    <div role="group" aria-labelledby={id} className="flex flex-col gap-1">
      <span id={id} className="font-medium">{label}</span>
      {help === undefined ? null : <p className="text-sm text-muted">{help}</p>}
      <div className="flex items-start gap-1 rounded-md border border-line bg-raised py-0.5 pr-0.5 pl-2.5">
        <code className="min-w-0 flex-1 self-center font-mono text-sm whitespace-pre-wrap wrap-anywhere">{value}</code>
        <CopyButton text={value} className="size-7" />
      </div>
      {error === undefined ? null : <p className="text-sm text-fail">{error}</p>}
    </div>
  );
}

/** A field that its plugin fixes: the effective value, and why. */
function LockedField({ label, help, error, item }: Words & { item: FormItem }): ReactNode {
  const t = useText(texts);
  const { language } = useLanguage();
  const value = shownValue(item, language, t("yes"), t("no"));
  const why = (
    <>
      {help === undefined ? null : <span className="block">{help}</span>}
      <span className="flex items-start gap-1"><Lock aria-hidden className="mt-0.5 size-3.5 shrink-0" /><span>{t("locked", { why: localized(item.locked, language) ?? "" })}</span></span>
    </>
  );
  return (
    <Field label={label} help={why} error={error}>
      {(ids) => (value.includes("\n") ? <Textarea {...ids} readOnly value={value} /> : <Input {...ids} readOnly value={value} />)}
    </Field>
  );
}

interface Choice {
  value: string;
  label: string;
}
interface Choices {
  llm: readonly Choice[];
  rerank: readonly Choice[];
  embedding: readonly Choice[];
  knowledge: readonly Choice[];
  tools: readonly Choice[];
  files: readonly Choice[];
}

function useChoices(): Choices {
  const { may } = useSession();
  const models = useQuery({ queryKey: ["models", "list"], queryFn: () => listModels({ query: { limit: 100 } }), enabled: may("models.read") });
  const bases = useQuery({ queryKey: ["knowledge", "list"], queryFn: () => listKnowledgeBases({ query: { limit: 100 } }), enabled: may("knowledge.read") });
  const tools = useQuery({ queryKey: ["capabilities", "list"], queryFn: () => listCapabilities({ query: { limit: 100 } }), enabled: may("capabilities.read") });
  const files = useQuery({ queryKey: ["files", "choices"], queryFn: () => listFiles({ query: { limit: 100 } }), enabled: may("files.read") });
  const ofType = (type: string): Choice[] => (models.data?.items ?? []).filter((model) => model.model_type === type).map((model) => ({ value: model.model_id, label: model.model_id }));
  return {
    llm: [{ value: "default", label: "default" }, ...ofType("llm").filter((model) => model.value !== "default")],
    rerank: ofType("rerank"),
    embedding: ofType("embedding"),
    knowledge: (bases.data?.items ?? []).map((base) => ({ value: base.kb_id, label: base.kb_id })),
    tools: (tools.data?.items ?? []).map((tool) => ({ value: tool.id, label: tool.id })),
    files: (files.data?.items ?? []).map((file) => ({ value: file.file_id, label: file.name })),
  };
}

/** A reference to a secret of the workspace names it, so it is shown. */
const REFERENCE = "secret:";

interface ControlProps {
  item: FormItem;
  value: unknown;
  set: (value: unknown) => void;
  ids: { id: string };
  choices: Choices;
}

function Control({ item, value, set, ids, choices }: ControlProps): ReactNode {
  const t = useText(texts);
  const { language } = useLanguage();
  const options = (item.options ?? []).map((option) => ({ value: text(option.value), label: localized(option.label, language) ?? text(option.value) }));
  const given = (typed: string): unknown => (typed === "" ? undefined : typed);
  const pick = (list: readonly Choice[]): ReactNode => <Pick ids={ids} list={list} value={text(value)} optional={item.required !== true} onChange={(next) => set(given(next))} />;
  const many = (list: readonly Choice[]): ReactNode => <PickMany list={list} value={Array.isArray(value) ? value.map(text) : []} onChange={set} />;
  switch (item.type) {
    case "integer":
    case "float":
      return <Input {...ids} type="number" step={item.type === "integer" ? 1 : "any"} value={text(value)} onChange={(event) => set(event.target.value === "" ? undefined : Number(event.target.value))} />;
    case "secret":
      return <Input {...ids} type={text(value).startsWith(REFERENCE) ? "text" : "password"} autoComplete="off" value={text(value)} onChange={(event) => set(given(event.target.value))} />;
    case "text":
    case "prompt-editor":
      return <Textarea {...ids} className={item.type === "prompt-editor" ? "min-h-32" : ""} value={text(value)} onChange={(event) => set(event.target.value)} />;
    case "select":
      return <Pick ids={ids} list={options} value={text(value)} optional={item.required !== true} onChange={(next) => set(item.options?.find((option) => text(option.value) === next)?.value)} />;
    case "multi-select":
      return many(options);
    case "array[string]":
      return <Textarea {...ids} placeholder={t("lines")} defaultValue={Array.isArray(value) ? value.map(text).join("\n") : ""} onChange={(event) => set(event.target.value.split("\n").map((line) => line.trim()).filter(Boolean))} />;
    case "llm-model-selector":
      return pick(choices.llm);
    case "rerank-model-selector":
      return pick(choices.rerank);
    case "embedding-model-selector":
      return pick(choices.embedding);
    case "model-fallback-selector":
      return <Fallbacks ids={ids} list={choices.llm} value={value} onChange={set} />;
    case "knowledge-base-multi-selector":
      return many(choices.knowledge);
    case "tool-multi-selector":
      return many(choices.tools);
    case "file":
      return pick(choices.files);
    case "array[file]":
      return many(choices.files);
    case "outpost-selector":
      return <p className="text-muted">{t("later")}</p>;
    case "string":
      return <Input {...ids} value={text(value)} onChange={(event) => set(given(event.target.value))} />;
    default:
      return <JsonEditor {...ids} value={value} onChange={set} />;
  }
}

function Pick({ ids, list, value, optional, onChange }: { ids: { id: string }; list: readonly Choice[]; value: string; optional: boolean; onChange: (value: string) => void }): ReactNode {
  const t = useText(texts);
  const known = list.some((each) => each.value === value);
  return (
    <Select {...ids} value={value} onChange={(event) => onChange(event.target.value)}>
      {optional || value === "" ? <option value="">{t("none")}</option> : null}
      {known || value === "" ? null : <option value={value}>{value}</option>}
      {list.map((each) => <option key={each.value} value={each.value}>{each.label}</option>)}
    </Select>
  );
}

/** Checkboxes. A chosen value that the list no longer has stays, so that it can be taken away. */
export function PickMany({ list, value, onChange }: { list: readonly Choice[]; value: readonly string[]; onChange: (value: readonly string[]) => void }): ReactNode {
  const t = useText(texts);
  const gone = value.filter((each) => !list.some((one) => one.value === each)).map((each) => ({ value: each, label: each }));
  const all = [...list, ...gone];
  if (all.length === 0) return <p className="text-sm text-muted">{t("nothing")}</p>;
  return (
    <div className="max-h-56 overflow-y-auto rounded-md border border-line p-2 scroll-thin">
      {all.map((each) => (
        <label key={each.value} className="flex items-center gap-2 py-0.5">
          <Checkbox checked={value.includes(each.value)} onChange={(event) => onChange(event.target.checked ? [...value, each.value] : value.filter((one) => one !== each.value))} />
          <span className="font-mono text-sm">{each.label}</span>
        </label>
      ))}
    </div>
  );
}

function Fallbacks({ ids, list, value, onChange }: { ids: { id: string }; list: readonly Choice[]; value: unknown; onChange: (value: unknown) => void }): ReactNode {
  const t = useText(texts);
  const chosen = typeof value === "object" && value !== null ? (value as { primary?: string; fallbacks?: string[] }) : {};
  const { primary = "", fallbacks = [] } = chosen;
  return (
    <div className="flex flex-col gap-2">
      <Pick ids={ids} list={list} value={primary} optional onChange={(next) => onChange({ primary: next, fallbacks })} />
      <span className="text-sm text-muted">{t("fallbacks")}</span>
      <PickMany list={list.filter((each) => each.value !== primary)} value={fallbacks} onChange={(next) => onChange({ primary, fallbacks: next })} />
    </div>
  );
}
