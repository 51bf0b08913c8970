/** The policies of an agent: its access by choice, the others as forms that unfold. */
import type { ReactNode } from "react";
import { useLanguage, useText } from "@/i18n/i18n";
import { described } from "@/parts/saved-resource/described";
import { fieldNames } from "@/parts/saved-resource/field-names";
import { isFields, withField, type Fields } from "@/parts/schema-form/schema";
import { SchemaForm } from "@/parts/schema-form/schema-form";
import { Card } from "@/ui/data";
import { Access } from "./access";
import type { PartProps } from "./agent-page";
import { texts } from "./texts";

const LIMITS = ["deadline_s", "idle_s", "repeatable"];
const names = fieldNames("agents");
const body = described("agents").body ?? {};

export function Policies({ fields, setFields, problems = {} }: PartProps): ReactNode {
  const t = useText(texts);
  const { language } = useLanguage();
  const policy = isFields(fields.policy) ? fields.policy : {};
  const groups = Object.entries(body.properties?.policy?.properties ?? {}).filter(([name]) => name !== "access");
  const set = (name: string, value: Fields): void => setFields(withField(fields, "policy", withField(policy, name, Object.keys(value).length === 0 ? undefined : value)));
  return (
    <>
      <Access fields={fields} access={isFields(policy.access) ? policy.access : {}} onChange={(access) => set("access", access)} problems={problems} />
      <Card title={t("policy")}>
        <div className="-my-2 divide-y divide-line">
          {groups.map(([name, schema]) => {
            const path = `policy.${name}`;
            const value = isFields(policy[name]) ? policy[name] : {};
            const help = names.help(path, language, schema.description);
            const wrong = Object.keys(problems).some((each) => each.startsWith(`${path}.`));
            return (
              <details key={name} data-policy={`/policy/${name}`} open={wrong || undefined} className="py-2">
                <summary className="font-medium">{names.label(path, language)}{help === undefined ? null : <span className="ml-2 text-sm font-normal text-muted">{help}</span>}</summary>
                <div className="pt-3 pb-1 pl-4"><SchemaForm schema={schema} path={path} value={value} onChange={(next) => set(name, next)} names={names} problems={problems} /></div>
              </details>
            );
          })}
          <details className="py-2">
            <summary className="font-medium">{t("limits")}</summary>
            <div className="pt-3 pb-1 pl-4">
              <SchemaForm schema={body} value={fields} onChange={setFields} names={names} hidden={Object.keys(body.properties ?? {}).filter((name) => !LIMITS.includes(name))} problems={problems} />
            </div>
          </details>
        </div>
      </Card>
    </>
  );
}
