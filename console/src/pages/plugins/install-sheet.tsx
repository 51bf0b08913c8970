/** Installs or updates a plugin: the host reads the file first, a person consents to what it asks for, then it is installed. */
import { ApiError, inspectPlugin, installPlugin, updatePlugin, type InspectedPlugin, type Plugin } from "@bollard/client";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Minus, Plus, TriangleAlert } from "lucide-react";
import { useState, type ReactNode } from "react";
import { useSession } from "@/api/session";
import { useLanguage, useText } from "@/i18n/i18n";
import { PluginAsks } from "@/parts/plugin-asks/plugin-asks";
import { upload } from "@/parts/upload";
import { Button } from "@/ui/button";
import { Card, Id } from "@/ui/data";
import { ErrorNote } from "@/ui/feedback";
import { Field, FileInput } from "@/ui/field";
import { Markdown } from "@/ui/markdown";
import { Dialog } from "@/ui/overlay";
import { useNotes } from "@/ui/toast";
import { pathOf } from "./plugin-actions";
import { texts } from "./texts";
import { zipOf } from "./zip";

const ARCHIVE = "application/zip";

/** Where the code comes from: a file of this person, or an item of the catalogue such as `bundled/echo`. */
type Origin = { name: string; body: Blob } | { item: string };

export function InstallSheet({ item, onClose }: { item?: string; onClose: () => void }): ReactNode {
  const t = useText(texts);
  const { workspace } = useSession();
  const notes = useNotes();
  const queries = useQueryClient();
  const [origin, setOrigin] = useState<Origin | undefined>(item === undefined ? undefined : { item });
  const [percent, setPercent] = useState(0);
  const picking = useMutation({
    mutationFn: async (picked: File) => {
      const body = await archiveOf(picked, t("notPlugin", { name: picked.name }), t("notPluginHint"));
      setOrigin({ name: picked.name, body });
      return upload<InspectedPlugin>({ url: `/api/v1/plugins/inspect?source=${encodeURIComponent(picked.name)}`, body, contentType: ARCHIVE, workspace, onProgress: setPercent });
    },
  });
  const fetching = useQuery({ queryKey: ["catalogue", "inspected", item], queryFn: () => inspectPlugin({ body: { catalogue: item ?? "" } }), enabled: item !== undefined, retry: false, gcTime: 0 });
  const reading = item === undefined ? { data: picking.data, error: picking.error, isPending: picking.isPending } : { data: fetching.data, error: fetching.error, isPending: fetching.isPending };
  const read = reading.data;
  const installing = useMutation({
    mutationFn: async ({ inspected, from }: { inspected: InspectedPlugin; from: Origin }): Promise<Plugin> => {
      const { consent } = inspected;
      if ("item" in from) {
        const body = { catalogue: from.item, consent };
        return inspected.installed === null ? installPlugin({ body }) : updatePlugin({ path: pathOf(inspected.plugin_id), body });
      }
      const { body, name } = from;
      const query = new URLSearchParams({ consent, source: name }).toString();
      const target = inspected.installed === null ? "" : `/${inspected.plugin_id}`;
      return upload<Plugin>({ method: inspected.installed === null ? "POST" : "PUT", url: `/api/v1/plugins${target}?${query}`, body, contentType: ARCHIVE, workspace, onProgress: setPercent });
    },
    onSuccess: (plugin) => {
      void queries.invalidateQueries({ queryKey: ["plugins"] });
      void queries.invalidateQueries({ queryKey: ["catalogue"] });
      notes.done(t("done", { name: plugin.plugin_id, version: plugin.version ?? "" }));
      onClose();
    },
  });
  const again = (): void => {
    picking.reset();
    installing.reset();
    setPercent(0);
  };
  const same = read?.installed !== null && read?.installed.digest === read?.digest;
  const footer =
    read === undefined || origin === undefined ? undefined : (
      <>
        {item === undefined ? <Button kind="ghost" disabled={installing.isPending} onClick={again}>{t("another")}</Button> : null}
        <span className="flex-1" />
        {same ? null : (
          <Button kind="primary" busy={installing.isPending} onClick={() => installing.mutate({ inspected: read, from: origin })}>
            {t(read.installed === null ? "consent" : read.needs_consent ? "consentUpdate" : "updateOnly")}
          </Button>
        )}
      </>
    );
  return (
    <Dialog open place="side" title={t("install")} onOpenChange={onClose} footer={footer}>
      <div className="flex flex-col gap-4">
        {reading.error === null ? null : <ErrorNote error={reading.error} />}
        {installing.error === null ? null : <ErrorNote error={installing.error} />}
        {read !== undefined ? (
          <Inspected read={read} same={same} />
        ) : item !== undefined ? null : (
          <Field label={t("pick")} help={t("pickHelp")}>
            {(ids) => (
              <FileInput
                {...ids}
                label={t("choose")}
                accept=".zip,.whl,.py"
                disabled={reading.isPending}
                onChange={(event) => {
                  const picked = event.target.files?.[0];
                  if (picked !== undefined) picking.mutate(picked);
                }}
              />
            )}
          </Field>
        )}
        {reading.isPending ? <Progress percent={item === undefined ? percent : 100} after={t("checking")} /> : null}
        {installing.isPending ? <Progress percent={item === undefined ? percent : 100} after={t("installing")} /> : null}
      </div>
    </Dialog>
  );
}

function Progress({ percent, after }: { percent: number; after: string }): ReactNode {
  const t = useText(texts);
  return (
    <div role="status">
      <progress max={100} {...(percent < 100 ? { value: percent } : {})} className="w-full accent-accent" />
      <p className="text-sm text-muted">{percent < 100 ? t("reading", { percent }) : after}</p>
    </div>
  );
}

function Inspected({ read, same }: { read: InspectedPlugin; same: boolean }): ReactNode {
  const t = useText(texts);
  const { language } = useLanguage();
  const own = (words: Record<string, string> | null): string | undefined => words?.[language === "zh" ? "zh_Hans" : "en_US"] ?? words?.en_US;
  const { added, removed } = read.change;
  return (
    <>
      <div>
        <h2 className="wrap-anywhere">{own(read.label)} <span className="font-mono text-sm text-muted">{read.plugin_id} {read.version}</span></h2>
        {own(read.description ?? null) === undefined ? null : <p className="text-muted">{own(read.description)}</p>}
        <Id id={read.digest} />
      </div>
      {same ? <p className="text-muted">{t("already")}</p> : (
        <p className="flex gap-2 rounded-md border border-wait-line bg-wait-soft p-3 text-wait"><TriangleAlert aria-hidden className="mt-0.5 shrink-0" />{t("consentWords", { digest: read.digest.slice(0, 12) })}</p>
      )}
      {read.installed === null || same ? null : (
        <Card title={t("change", { version: read.installed.version })}>
          {added.length + removed.length === 0 ? t("same") : (
            <ul className="font-mono text-sm wrap-anywhere">
              {added.map((each) => <li key={each} className="flex gap-2 text-wait"><Plus aria-hidden className="mt-0.5 shrink-0" />{each}</li>)}
              {removed.map((each) => <li key={each} className="flex gap-2 text-muted line-through"><Minus aria-hidden className="mt-0.5 shrink-0" />{each}</li>)}
            </ul>
          )}
        </Card>
      )}
      <Card title={t("asks", { name: read.plugin_id, version: read.version })}><PluginAsks asks={read.asks} /></Card>
      {read.readme === null ? null : <Card title={t("readme")}><Markdown text={read.readme} /></Card>}
    </>
  );
}

/** The archive to send: a zip or a wheel as it is, a single Python file inside a zip. */
async function archiveOf(file: File, message: string, hint: string): Promise<Blob> {
  const ending = file.name.split(".").at(-1)?.toLowerCase();
  if (ending === "zip" || ending === "whl") return file;
  if (ending === "py") return zipOf(file.name, new Uint8Array(await file.arrayBuffer()));
  throw new ApiError({ code: "invalid_argument", message, hint }, 0);
}
