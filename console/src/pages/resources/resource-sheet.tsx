/** One resource at the side of its list: its form, its details, its deletion. */
import { ApiError, getFileContent } from "@bollard/client";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { MessageSquare } from "lucide-react";
import { useState, type ReactNode } from "react";
import { useSession } from "@/api/session";
import { fieldProblems } from "@/i18n/errors";
import { useLanguage, useText } from "@/i18n/i18n";
import { text } from "@/i18n/text";
import { DownloadButton } from "@/parts/download";
import { ListLimit } from "@/parts/list-limit";
import { DeleteButton } from "@/parts/saved-resource/delete-button";
import { described } from "@/parts/saved-resource/described";
import { fieldLabel, fieldNames } from "@/parts/saved-resource/field-names";
import { editableFields, KEPT, saveResource, useSaved } from "@/parts/saved-resource/saving";
import type { Fields, Schema } from "@/parts/schema-form/schema";
import { SchemaForm } from "@/parts/schema-form/schema-form";
import { Button } from "@/ui/button";
import { Code, Facts, Json } from "@/ui/data";
import { ErrorNote, Skeleton } from "@/ui/feedback";
import { Field, Input } from "@/ui/field";
import { Dialog } from "@/ui/overlay";
import { Tabs } from "@/ui/tabs";
import { useNotes } from "@/ui/toast";
import { Cell } from "./cell";
import { useChoices } from "./choices";
import { FileUpload } from "./file-upload";
import { kinds, type KindName } from "./kinds";
import { RuntimeControl } from "./runtime-control";
import { SkillFiles } from "./skill-files";
import { SubscriptionDeliveries } from "./subscription-activity";
import { texts } from "./texts";

interface SheetProps {
  kind: KindName;
  /** The resource of the list; `undefined` makes a new one. */
  resource: Fields | undefined;
  onClose: () => void;
}

export function ResourceSheet({ kind, resource, onClose }: SheetProps): ReactNode {
  const t = useText(texts);
  const { id, save } = described(kind);
  const name = resource === undefined ? undefined : text(resource[id]);
  const whole = useSaved(kind, save !== undefined && kind !== "skills" ? name : undefined);
  const value = save === undefined || kind === "skills" ? resource : whole.data;
  const title = resource === undefined ? t(`${kind}.new`) : text(resource.name ?? resource.title ?? name);
  if (resource !== undefined && value === undefined) {
    return <Dialog open place="side" title={title} onOpenChange={onClose}>{whole.error === null ? <Skeleton /> : <ErrorNote error={whole.error} />}</Dialog>;
  }
  if (resource === undefined && kinds[kind].isFile === true) return <FileUpload onClose={onClose} />;
  return <Editor key={text(value?.revision)} kind={kind} title={title} name={name} value={value} onClose={onClose} onReload={() => void whole.refetch()} />;
}

interface EditorProps {
  kind: KindName;
  title: string;
  name: string | undefined;
  value: Fields | undefined;
  onClose: () => void;
  onReload: () => void;
}

function Editor({ kind, title, name, value, onClose, onReload }: EditorProps): ReactNode {
  const t = useText(texts);
  const { language } = useLanguage();
  const { may } = useSession();
  const notes = useNotes();
  const queries = useQueryClient();
  const description = described(kind);
  const operation = name === undefined ? description.save ?? description.create : description.save;
  const mayWrite = operation !== undefined && (operation.right === null || may(operation.right));
  const schema = formSchema(kind);
  const choices = useChoices(kind);
  const [id, setId] = useState(name ?? "");
  const [fields, setFields] = useState<Fields>(() => editableFields(kind, value));
  const [shownOnce, setShownOnce] = useState<string>();
  const saving = useMutation({
    mutationFn: () => saveResource(kind, id, fields, value),
    onSuccess: (answer) => {
      void queries.invalidateQueries({ queryKey: [kind] });
      notes.done(t("saved", { id: id || title }));
      const secret = answer[kinds[kind].shownOnce ?? ""];
      if (typeof secret === "string" && secret !== KEPT) setShownOnce(secret);
      else onClose();
    },
  });
  const deletion = kind === "conversations" || kind === "workspaces" || kind === "users" || kind === "runtimes" ? t(`delete.${kind}`) : t("delete.text");
  const isConflict = saving.error instanceof ApiError && saving.error.status === 412;
  const needsId = name === undefined && description.save !== undefined;
  const footer =
    shownOnce !== undefined ? (
      <Button kind="primary" onClick={onClose}>{t("close")}</Button>
    ) : (
      <>
        {name === undefined ? null : <DeleteButton kind={kind} id={name} title={title} onDeleted={onClose}>{deletion}</DeleteButton>}
        <span className="flex-1" />
        {mayWrite && schema !== undefined ? <Button kind="primary" busy={saving.isPending} disabled={needsId && id.trim() === ""} onClick={() => saving.mutate()}>{t("save")}</Button> : null}
      </>
    );
  const tabs = (form: ReactNode): ReactNode =>
    kind === "subscriptions" && name !== undefined ? <Tabs tabs={[{ id: "settings", name: t("delivery.settings"), content: form }, { id: "deliveries", name: t("delivery.title"), content: <SubscriptionDeliveries id={name} /> }]} /> : form;
  return (
    <Dialog open place="side" title={title} onOpenChange={onClose} footer={footer}>
      <div className="flex flex-col gap-4">
        {saving.error === null ? null : <ErrorNote error={saving.error} onRetry={isConflict ? onReload : undefined} />}
        {shownOnce !== undefined ? (
          <div className="flex flex-col gap-2">
            <p className="font-medium text-wait">{t("once")}</p>
            <Code text={shownOnce} />
          </div>
        ) : tabs(
          <div className="flex flex-col gap-4">
            {needsId ? <Field label={t("id")} help={t(kind === "secrets" ? "secretIdHelp" : "idHelp")} required>{(ids) => <Input {...ids} value={id} autoFocus onChange={(event) => setId(event.target.value)} />}</Field> : null}
            {schema === undefined || !mayWrite ? null : kind === "skills" ? <SkillFiles value={fields.files} onChange={(files) => setFields({ ...fields, files })} /> : (
              <SchemaForm schema={schema} value={fields} onChange={setFields} names={fieldNames(kind)} choices={choices.ids} hidden={kinds[kind].hidden ?? []} problems={fieldProblems(saving.error, language)} />
            )}
            <ListLimit lists={choices.found} />
            {value === undefined || kind === "runtimes" || (schema !== undefined && mayWrite && name !== undefined && kind !== "skills") ? null : <Values value={value} />}
            {value === undefined || name === undefined ? null : <Extras kind={kind} id={name} title={title} value={value} />}
            {value === undefined ? null : (
              <details>
                <summary className="text-muted">{t("details")}</summary>
                <Json value={value} className="mt-2" />
              </details>
            )}
          </div>,
        )}
      </div>
    </Dialog>
  );
}

/** What a resource without a form holds. */
function Values({ value }: { value: Fields }): ReactNode {
  const { language } = useLanguage();
  const shown = Object.entries(value).filter(([name, each]) => name !== "revision" && name !== "last_seq" && each !== null && (typeof each !== "object" || Array.isArray(each)));
  return <Facts items={shown.map(([name, each]) => [fieldLabel(name, language), <Cell key={name} name={name} value={each} />])} />;
}

/** What a resource of one kind has beyond its fields. */
function Extras({ kind, id, title, value }: { kind: KindName; id: string; title: string; value: Fields }): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  switch (kind) {
    case "runtimes": return <RuntimeControl id={id} />;
    case "files": return <DownloadButton name={title} ask={() => getFileContent({ path: { file_id: id }, parseAs: "blob" })}>{t("download")}</DownloadButton>;
    case "conversations": return may("runs.read") ? <ChatLink conversation={value} /> : null;
    default: return null;
  }
}

function ChatLink({ conversation }: { conversation: Fields }): ReactNode {
  const t = useText(texts);
  const place = Object.entries({ conversation: conversation.conversation_id, thread: conversation.thread_id, bot: conversation.bot_id }).filter((each): each is [string, string] => typeof each[1] === "string");
  const target: string = `/chat?${new URLSearchParams(place).toString()}`;
  return <Button asChild className="self-start"><Link to={target}><MessageSquare aria-hidden />{t("openChat")}</Link></Button>;
}

/** What the list shows comes first, in its order; proxies come last. */
function rank(kind: KindName, name: string): number {
  const shown = kinds[kind].columns.indexOf(name);
  if (shown >= 0) return shown;
  return name.startsWith("proxy") ? 1_001 : 1_000;
}

/** The schema of the form. Values that the host never returns are passwords. */
function formSchema(kind: KindName): Schema | undefined {
  const { body } = described(kind);
  if (body?.properties === undefined) return undefined;
  const secret: Record<string, true> = { password: true, value: true, secret: true };
  const entries = Object.entries(body.properties).toSorted(([one], [other]) => rank(kind, one) - rank(kind, other));
  const properties = Object.fromEntries(entries.map(([name, each]) => [name, secret[name] === true && each.type === "string" ? { ...each, format: "password" } : each]));
  return { ...body, properties };
}
