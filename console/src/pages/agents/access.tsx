/** What runs of an agent may reach: operations that its runner asks for, and the resources that the policy adds. */
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { lists, type Listing } from "@/api/lists";
import { useSession, type Right } from "@/api/session";
import { useText } from "@/i18n/i18n";
import { ListLimit } from "@/parts/list-limit";
import { usePermissionText } from "@/parts/plugin-asks/plugin-asks";
import { fieldNames } from "@/parts/saved-resource/field-names";
import { described } from "@/parts/saved-resource/described";
import { isFields, withField, type Fields } from "@/parts/schema-form/schema";
import { SchemaForm } from "@/parts/schema-form/schema-form";
import { PickMany } from "@/parts/runner-form/runner-form";
import { Button } from "@/ui/button";
import { Card } from "@/ui/data";
import { Checkbox } from "@/ui/field";
import { addedTo, askedPermissions, permits, withAdded, withPermission } from "./access-rules";
import { texts } from "./texts";

const RESOURCES = ["tools", "agents", "knowledge_bases", "skills", "models", "files"] as const;
type Resource = (typeof RESOURCES)[number];
/** Kinds of capabilities that a run calls as tools. */
const TOOLS = new Set(["tool", "mcp", "channel"]);
interface Choice {
  value: string;
  label: string;
}
const accessSchema = described("agents").body?.properties?.policy?.properties?.access ?? {};
const names = fieldNames("agents");

interface AccessProps {
  fields: Fields;
  access: Fields;
  onChange: (access: Fields) => void;
  problems: Readonly<Record<string, string>>;
}

export function Access({ fields, access, onChange, problems }: AccessProps): ReactNode {
  const t = useText(texts);
  const says = usePermissionText();
  const runners = useQuery(lists.runners);
  const asked = runners.data?.items.find((each) => each.runner_id === fields.runner_id)?.permissions ?? {};
  const { choices, found } = useChoices();
  const all = askedPermissions(asked, access);
  const wrong = Object.entries(problems).filter(([path]) => path.startsWith("policy.access.")).map(([, problem]) => problem);
  return (
    <Card title={t("access")}>
      <div className="flex flex-col gap-4">
        {wrong.map((problem) => <p key={problem} className="text-sm text-fail">{problem}</p>)}
        <fieldset data-policy="/policy/access" className="flex flex-col gap-1.5">
          <legend className="mb-1 font-medium">{t("operations")}</legend>
          {all.length === 0 && runners.data !== undefined ? <p className="text-sm text-muted">{t("asksNothing")}</p> : null}
          {all.map(({ permission, isAsked }) => (
            <label key={permission} className="flex items-start gap-2">
              <Checkbox className="mt-0.5" checked={permits(access, permission)} onChange={(event) => onChange(withPermission(access, permission, event.target.checked))} />
              <span className="min-w-0">{says(permission)} <code className="font-mono text-sm text-muted">{permission}</code>{isAsked ? null : <span className="block text-sm text-wait">{t("notAsked")}</span>}</span>
            </label>
          ))}
        </fieldset>
        {RESOURCES.filter((kind) => choices[kind].length > 0 || addedTo(access, kind).length > 0).map((kind) => (
          <fieldset key={kind} data-policy={`/policy/access/resources/${kind}`} className="flex min-w-0 flex-col gap-1">
            <legend className="mb-1 font-medium">{t(kind)}</legend>
            <PickMany list={choices[kind]} value={addedTo(access, kind)} onChange={(added) => onChange(withAdded(access, kind, added))} />
            <Limit access={access} kind={kind} onChange={onChange} />
          </fieldset>
        ))}
        <ListLimit lists={found} />
        <SchemaForm schema={accessSchema} path="policy.access" value={access} onChange={onChange} names={names} hidden={["policy.access.permissions", "policy.access.resources"]} problems={problems} />
      </div>
    </Card>
  );
}

/** A list that limits the selection of the configuration was written elsewhere; here it can be read and taken away. */
function Limit({ access, kind, onChange }: { access: Fields; kind: Resource; onChange: (access: Fields) => void }): ReactNode {
  const t = useText(texts);
  const resources = isFields(access.resources) ? access.resources : {};
  const rule = isFields(resources[kind]) ? resources[kind] : {};
  if (!Array.isArray(rule.only)) return null;
  return (
    <p className="flex flex-wrap items-center gap-2 text-sm text-wait">
      {t("limited", { names: rule.only.join(", ") || "—" })}
      <Button size="sm" onClick={() => onChange(withField(access, "resources", withField(resources, kind, withField(rule, "only", undefined))))}>{t("unlimit")}</Button>
    </p>
  );
}

/** What the workspace has, as far as the person may see it. */
function useChoices(): { choices: Record<Resource, readonly Choice[]>; found: readonly (Listing<unknown> | undefined)[] } {
  const { may } = useSession();
  const on = (right: Right): { enabled: boolean } => ({ enabled: may(right) });
  const tools = useQuery({ ...lists.capabilities, ...on("capabilities.read") });
  const agents = useQuery({ ...lists.agents, ...on("agents.read") });
  const bases = useQuery({ ...lists.knowledge, ...on("knowledge.read") });
  const skills = useQuery({ ...lists.skills, ...on("skills.read") });
  const models = useQuery({ ...lists.models, ...on("models.read") });
  const files = useQuery({ ...lists.files, ...on("files.read") });
  const byId = (ids: readonly string[] | undefined): Choice[] => (ids ?? []).map((id) => ({ value: id, label: id }));
  const choices = {
    tools: byId(tools.data?.items.filter((each) => TOOLS.has(each.kind ?? "")).map((each) => each.id)),
    agents: byId(agents.data?.items.map((each) => each.agent_id)),
    knowledge_bases: byId(bases.data?.items.map((each) => each.kb_id)),
    skills: byId(skills.data?.items.map((each) => each.skill_id)),
    models: byId(models.data?.items.map((each) => each.model_id)),
    files: (files.data?.items ?? []).map((file) => ({ value: file.file_id, label: file.name })),
  };
  return { choices, found: [tools.data, agents.data, bases.data, skills.data, models.data, files.data] };
}
