import { listModelPresets, setSecret, testUnsavedModel, type Model, type ModelPreset, type TriedModel } from "@bollard/client";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { CircleCheck } from "lucide-react";
import { useState, type ReactNode } from "react";
import { fieldProblems } from "@/i18n/errors";
import { useFormats } from "@/i18n/format";
import { useLanguage, useText } from "@/i18n/i18n";
import { text } from "@/i18n/text";
import { DeleteButton } from "@/parts/saved-resource/delete-button";
import { described } from "@/parts/saved-resource/described";
import { fieldNames } from "@/parts/saved-resource/field-names";
import { editableFields, saveResource } from "@/parts/saved-resource/saving";
import { withField, type Fields } from "@/parts/schema-form/schema";
import { SchemaForm } from "@/parts/schema-form/schema-form";
import { Button } from "@/ui/button";
import { ErrorNote } from "@/ui/feedback";
import { Field, Input, Select } from "@/ui/field";
import { Dialog } from "@/ui/overlay";
import { useNotes } from "@/ui/toast";
import { checked } from "./test-answer";
import { texts } from "./texts";

const OTHER = "other";
const OWN = ["revision", "model_id", "style", "base_url", "model", "secret"];

/** The form of a model: a provider fills in address and format, the key is tested before anything is kept. */
export function ModelSheet({ model, onClose }: { model: Model | undefined; onClose: () => void }): ReactNode {
  const t = useText(texts);
  const notes = useNotes();
  const queries = useQueryClient();
  const before = model as unknown as Fields | undefined;
  const [id, setId] = useState(model?.model_id ?? "");
  const [key, setKey] = useState("");
  const [chosen, setChosen] = useState(model !== undefined);
  const [fields, setFields] = useState<Fields>(() => editableFields("models", before));
  const test = useMutation({ mutationFn: async () => checked(await testUnsavedModel({ body: { model: tried(fields, key), ...(key === "" ? {} : { key }) } })) });
  const saving = useMutation({
    mutationFn: async () => {
      const secret = text(fields.secret);
      if (key !== "" && secret !== "") await setSecret({ path: { secret_name: secret }, body: { value: key } });
      return saveResource("models", id, key === "" && model === undefined ? withField(fields, "secret", undefined) : fields, before);
    },
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["models"] });
      void queries.invalidateQueries({ queryKey: ["secrets"] });
      notes.done(t("saved", { id }));
      onClose();
    },
  });
  const footer = (
    <>
      {model === undefined ? null : <DeleteButton kind="models" id={id} onDeleted={onClose}>{t("deletion")}</DeleteButton>}
      <span className="flex-1" />
      <Button busy={test.isPending} disabled={text(fields.style) === ""} onClick={() => test.mutate()}>{t("test")}</Button>
      <Button kind="primary" busy={saving.isPending} disabled={id.trim() === "" || text(fields.style) === ""} onClick={() => saving.mutate()}>{t("save")}</Button>
    </>
  );
  return (
    <Dialog open place="side" title={model?.model_id ?? t("add")} onOpenChange={onClose} footer={footer}>
      <div className="flex flex-col gap-4">
        {saving.error === null ? null : <ErrorNote error={saving.error} />}
        {model === undefined ? (
          <Presets
            onChosen={(preset) => {
              setChosen(true);
              test.reset();
              if (preset === undefined) return;
              setFields({ style: preset.style, base_url: preset.base_url, model: preset.model ?? "", ...(preset.secret === undefined ? {} : { secret: preset.secret }) });
              setId((typed) => (typed === "" ? preset.preset_id : typed));
            }}
          />
        ) : null}
        {model === undefined && chosen ? <Field label={t("id")} help={t("idHelp")} required>{(ids) => <Input {...ids} value={id} onChange={(event) => setId(event.target.value)} />}</Field> : null}
        {chosen ? <Endpoint fields={fields} setFields={setFields} secretKey={key} setKey={setKey} isNew={model === undefined} error={saving.error} /> : null}
        <TestResult pending={test.isPending} error={test.error} answer={test.data} />
      </div>
    </Dialog>
  );
}

/** The model that is tested: with a typed key its secret is not read. */
function tried(fields: Fields, key: string): Fields {
  return key === "" ? fields : withField(fields, "secret", undefined);
}

function Presets({ onChosen }: { onChosen: (preset: ModelPreset | undefined) => void }): ReactNode {
  const t = useText(texts);
  const { language } = useLanguage();
  const query = useQuery({ queryKey: ["models", "presets"], queryFn: () => listModelPresets() });
  const [chosen, setChosen] = useState("");
  const presets = query.data?.items ?? [];
  return (
    <Field label={t("provider")} help={presets.find((each) => each.preset_id === chosen)?.note[language === "zh" ? "zh_Hans" : "en_US"]}>
      {(ids) => (
        <Select
          {...ids}
          autoFocus
          value={chosen}
          onChange={(event) => {
            setChosen(event.target.value);
            onChosen(presets.find((each) => each.preset_id === event.target.value));
          }}
        >
          <option value="" disabled>{t("choose")}</option>
          {presets.map((preset) => <option key={preset.preset_id} value={preset.preset_id}>{preset.label}</option>)}
          <option value={OTHER}>{t("other")}</option>
        </Select>
      )}
    </Field>
  );
}

interface EndpointProps {
  fields: Fields;
  setFields: (fields: Fields) => void;
  secretKey: string;
  setKey: (key: string) => void;
  isNew: boolean;
  error: unknown;
}

function Endpoint({ fields, setFields, secretKey, setKey, isNew, error }: EndpointProps): ReactNode {
  const t = useText(texts);
  const { language } = useLanguage();
  const problems = fieldProblems(error, language);
  const set = (name: string, value: string): void => setFields(withField(fields, name, value === "" ? undefined : value));
  const secret = text(fields.secret);
  const styles = described("models").body?.properties?.style?.enum ?? [];
  return (
    <>
      <Field label={t("style")} required error={problems.style}>
        {(ids) => (
          <Select {...ids} value={text(fields.style)} onChange={(event) => set("style", event.target.value)}>
            <option value="" disabled />
            {styles.map((style) => <option key={style} value={style}>{style}</option>)}
          </Select>
        )}
      </Field>
      <Field label={t("address")} error={problems.base_url}>{(ids) => <Input {...ids} inputMode="url" placeholder="https://api.openai.com/v1" value={text(fields.base_url)} onChange={(event) => set("base_url", event.target.value)} />}</Field>
      <Field label={t("name")} help={t("nameHelp")} error={problems.model}>{(ids) => <Input {...ids} value={text(fields.model)} onChange={(event) => set("model", event.target.value)} />}</Field>
      <Field label={t("key")} help={secret === "" ? t("keyless") : t(isNew ? "keyHelp" : "keyKept", { secret })} error={problems.secret}>
        {(ids) => (
          <Input
            {...ids}
            type="password"
            autoComplete="off"
            value={secretKey}
            onChange={(event) => {
              setKey(event.target.value);
              if (secret === "") set("secret", "MODEL_API_KEY");
            }}
          />
        )}
      </Field>
      <details>
        <summary className="text-muted">{t("more")}</summary>
        <div className="mt-3">
          <SchemaForm schema={described("models").body ?? {}} value={fields} onChange={setFields} names={fieldNames("models")} hidden={OWN} problems={problems} />
        </div>
      </details>
    </>
  );
}

function TestResult({ pending, error, answer }: { pending: boolean; error: unknown; answer: TriedModel | undefined }): ReactNode {
  const t = useText(texts);
  const { duration } = useFormats();
  if (pending) return <p role="status" className="text-muted">{t("testing")}</p>;
  if (error !== null) return <ErrorNote error={error} />;
  if (answer === undefined) return null;
  return (
    <p role="status" className="flex items-start gap-2 rounded-md bg-accent-soft p-3">
      <CircleCheck aria-hidden className="mt-0.5 text-accent" />
      <span>{t("works", { words: answer.words })} <span className="text-muted">({t("latency", { time: duration(answer.latency_ms) })})</span></span>
    </p>
  );
}
