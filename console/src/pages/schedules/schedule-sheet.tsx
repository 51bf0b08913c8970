import { previewSchedule, type Schedule } from "@bollard/client";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useDeferredValue, useState, type ReactNode } from "react";
import { fieldProblems } from "@/i18n/errors";
import { useFormats } from "@/i18n/format";
import { useLanguage, useText } from "@/i18n/i18n";
import { text } from "@/i18n/text";
import { AgentSelect } from "@/parts/agent-select";
import { DeleteButton } from "@/parts/saved-resource/delete-button";
import { described } from "@/parts/saved-resource/described";
import { fieldNames } from "@/parts/saved-resource/field-names";
import { editableFields, saveResource } from "@/parts/saved-resource/saving";
import { withField, type Fields } from "@/parts/schema-form/schema";
import { SchemaForm } from "@/parts/schema-form/schema-form";
import { Button } from "@/ui/button";
import { ErrorNote } from "@/ui/feedback";
import { Field, Input, Textarea } from "@/ui/field";
import { Dialog } from "@/ui/overlay";
import { useNotes } from "@/ui/toast";
import { texts } from "./texts";

type When = "cron" | "every_s" | "at";
const OWN = ["revision", "schedule_id", "cron", "every_s", "at", "zone", "agent_id", "text", "effective_from", "proposed_by"];
const EXAMPLES = [["0 9 * * 1-5", "weekdays"], ["0 * * * *", "hourly"], ["0 8 1 * *", "monthly"]] as const;

/** The form of a schedule. The host computes the next instants from what is typed. */
export function ScheduleSheet({ schedule, onClose }: { schedule: Schedule | undefined; onClose: () => void }): ReactNode {
  const t = useText(texts);
  const { language } = useLanguage();
  const notes = useNotes();
  const queries = useQueryClient();
  const [id, setId] = useState(schedule?.schedule_id ?? "");
  const [fields, setFields] = useState<Fields>(() => (schedule === undefined ? { cron: "0 9 * * 1-5", zone: Intl.DateTimeFormat().resolvedOptions().timeZone } : editableFields("schedules", schedule)));
  const set = (name: string, value: unknown): void => setFields((before) => withField(before, name, value === "" ? undefined : value));
  const saving = useMutation({
    mutationFn: () => saveResource("schedules", id, fields, schedule as unknown as Fields | undefined),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["schedules"] });
      notes.done(t("saved", { id }));
      onClose();
    },
  });
  const problems = fieldProblems(saving.error, language);
  const footer = (
    <>
      {schedule === undefined ? null : <DeleteButton kind="schedules" id={id} onDeleted={onClose}>{t("deletion")}</DeleteButton>}
      <span className="flex-1" />
      <Button kind="primary" busy={saving.isPending} disabled={id.trim() === ""} onClick={() => saving.mutate()}>{t("save")}</Button>
    </>
  );
  return (
    <Dialog open place="side" title={schedule?.schedule_id ?? t("add")} onOpenChange={onClose} footer={footer}>
      <div className="flex flex-col gap-4">
        {saving.error === null ? null : <ErrorNote error={saving.error} />}
        {schedule === undefined ? <Field label={t("id")} help={t("idHelp")} required>{(ids) => <Input {...ids} autoFocus value={id} onChange={(event) => setId(event.target.value)} />}</Field> : null}
        <WhenFields fields={fields} set={set} setFields={setFields} problems={problems} />
        <Preview fields={fields} />
        <Field label={t("agent")} error={problems.agent_id}>
          {(ids) => <AgentSelect ids={ids} value={text(fields.agent_id)} none={t("byBindings")} onChange={(agent) => set("agent_id", agent)} />}
        </Field>
        <Field label={t("text")} help={t("textHelp")} error={problems.text}>{(ids) => <Textarea {...ids} value={text(fields.text)} onChange={(event) => set("text", event.target.value)} />}</Field>
        <details>
          <summary className="text-muted">{t("more")}</summary>
          <div className="mt-3">
            <SchemaForm schema={described("schedules").body ?? {}} value={fields} onChange={setFields} names={fieldNames("schedules")} hidden={OWN} problems={problems} />
          </div>
        </details>
      </div>
    </Dialog>
  );
}

interface WhenProps {
  fields: Fields;
  set: (name: string, value: unknown) => void;
  setFields: (fields: Fields) => void;
  problems: Record<string, string>;
}

function WhenFields({ fields, set, setFields, problems }: WhenProps): ReactNode {
  const t = useText(texts);
  const chosen: When = fields.at !== undefined ? "at" : fields.every_s !== undefined ? "every_s" : "cron";
  const choose = (when: When): void => {
    const rest = ["cron", "every_s", "at"].reduce((all, name) => withField(all, name, undefined), fields);
    setFields({ ...rest, [when]: when === "cron" ? "0 9 * * 1-5" : when === "every_s" ? 3600 : "" });
  };
  const labels = { cron: t("cron"), every_s: t("every"), at: t("at") };
  const help = { cron: t("cronHelp"), every_s: t("everyHelp"), at: t("atHelp") };
  return (
    <fieldset className="flex flex-col gap-3 rounded-md border border-line p-3">
      <legend className="px-1 font-medium">{t("when")}</legend>
      <div role="radiogroup" aria-label={t("when")} className="flex gap-1">
        {(["cron", "every_s", "at"] as const).map((when) => (
          <Button key={when} size="sm" role="radio" aria-checked={when === chosen} kind={when === chosen ? "primary" : "secondary"} onClick={() => choose(when)}>{labels[when]}</Button>
        ))}
      </div>
      <Field label={labels[chosen]} help={help[chosen]} error={problems[chosen]}>
        {(ids) => <Input {...ids} className="font-mono" type={chosen === "every_s" ? "number" : "text"} min={10} value={text(fields[chosen])} onChange={(event) => set(chosen, chosen === "every_s" && event.target.value !== "" ? Number(event.target.value) : event.target.value)} />}
      </Field>
      {chosen === "cron" ? (
        <p className="flex flex-wrap items-center gap-1 text-sm text-muted">
          {t("examples")}:
          {EXAMPLES.map(([cron, name]) => <Button key={cron} size="sm" kind="ghost" onClick={() => set("cron", cron)}>{t(name)}</Button>)}
        </p>
      ) : null}
      <Field label={t("zone")} error={problems.zone}>
        {(ids) => (
          <>
            <Input {...ids} list="zones" value={text(fields.zone)} placeholder="UTC" onChange={(event) => set("zone", event.target.value)} />
            <datalist id="zones">{Intl.supportedValuesOf("timeZone").map((zone) => <option key={zone} value={zone} />)}</datalist>
          </>
        )}
      </Field>
    </fieldset>
  );
}

function Preview({ fields }: { fields: Fields }): ReactNode {
  const t = useText(texts);
  const { cron, every_s, at, zone, start, until } = useDeferredValue(fields);
  const body = Object.fromEntries(Object.entries({ cron, every_s, at, zone, start, until }).filter(([, value]) => value !== undefined && value !== ""));
  const query = useQuery({ queryKey: ["schedules", "preview", body], queryFn: () => previewSchedule({ body }), retry: false, placeholderData: (before) => before });
  return (
    <section aria-label={t("next")} aria-live="polite" className="rounded-md bg-raised p-3 text-sm">
      <h3>{t("next")}</h3>
      {query.error === null ? (
        <ol className="mt-1">
          {query.data?.next.map((instant) => (
            <Instant key={instant} instant={instant} zone={text(zone)} />
          ))}
          {query.data?.next.length === 0 ? <li>{t("noNext")}</li> : null}
        </ol>
      ) : (
        <ErrorNote error={query.error} className="mt-1" />
      )}
    </section>
  );
}

const ZONES = new Set(Intl.supportedValuesOf("timeZone"));

/** A time in the zone of the schedule, and in that of the reader where it is another one. */
function Instant({ instant, zone }: { instant: string; zone: string }): ReactNode {
  const { absolute } = useFormats();
  const at = Date.parse(instant) / 1000;
  const there = absolute(at, ZONES.has(zone) ? zone : "UTC");
  const here = absolute(at);
  return (
    <li className="flex flex-wrap gap-x-3">
      <time dateTime={instant} title={instant}>{there}</time>
      {here === there ? null : <span className="text-muted">{here}</span>}
    </li>
  );
}
