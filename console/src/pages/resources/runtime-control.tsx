/** One runtime as it is now: its connection, consent to the code that it offers, and a switch. */
import { changeRuntime, consentRuntime, getRuntime, type Runtime } from "@bollard/client";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Minus, Plus } from "lucide-react";
import type { ReactNode } from "react";
import { POLLED } from "@/api/queries";
import { useSession } from "@/api/session";
import { useHostWords } from "@/i18n/errors";
import { useFormats } from "@/i18n/format";
import { useText } from "@/i18n/i18n";
import { PluginAsks } from "@/parts/plugin-asks/plugin-asks";
import { Button } from "@/ui/button";
import { Card, Facts, Id, Time } from "@/ui/data";
import { ErrorNote, Skeleton } from "@/ui/feedback";
import { Confirm } from "@/ui/overlay";
import { useNotes } from "@/ui/toast";
import { RuntimeState } from "./runtime-state";
import { texts } from "./texts";

export function RuntimeControl({ id }: { id: string }): ReactNode {
  const query = useQuery({ queryKey: ["runtimes", "one", id], queryFn: () => getRuntime({ path: { runtime_id: id } }), meta: POLLED });
  if (query.data === undefined) return query.error === null ? <Skeleton rows={3} /> : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />;
  return (
    <>
      <Connection runtime={query.data} />
      <Consent runtime={query.data} />
    </>
  );
}

function Connection({ runtime }: { runtime: Runtime }): ReactNode {
  const t = useText(texts);
  const { number } = useFormats();
  const { presence } = runtime;
  const offered = presence?.plugin ?? runtime.consented;
  return (
    <section className="flex flex-col gap-3">
      <div className="flex flex-wrap items-center gap-2">
        <span className="flex-1"><RuntimeState status={runtime.status} /></span>
        <Switch runtime={runtime} />
      </div>
      <Problem runtime={runtime} />
      <Facts
        items={[
          [t("runtime.plugin"), offered === null ? runtime.only_plugin ?? undefined : <span className="wrap-anywhere">{offered.plugin_id} {offered.version}</span>],
          [t("runtime.digest"), offered?.digest == null ? undefined : <Id id={offered.digest} />],
          [t("runtime.connected"), presence === null ? undefined : <Time at={presence.connected_at} />],
          [t("runtime.runs"), presence === null ? undefined : number(presence.runs)],
          [t("runtime.enrolled"), <span key="enrolled">{runtime.enrolled_by} · <Time at={runtime.enrolled_at} /></span>],
          [t("runtime.consented"), runtime.consented === null ? undefined : <span>{runtime.consented.by} · <Time at={runtime.consented.at} /></span>],
        ]}
      />
    </section>
  );
}

/** Why a connected runtime gets no runs. Missing consent has a sentence of its own. */
function Problem({ runtime }: { runtime: Runtime }): ReactNode {
  const t = useText(texts);
  const words = useHostWords();
  const { presence, problem } = runtime;
  if (runtime.status !== "waiting" || problem === null) return null;
  if (presence?.plugin == null || presence.plugin.digest === null) return <p className="text-wait">{words.problem(problem)}</p>;
  return <p className="text-wait">{t(isNew(runtime) ? "runtime.needsConsent" : "runtime.needsNewConsent", { plugin: presence.plugin.plugin_id })}</p>;
}

function isNew({ consented, presence }: Runtime): boolean {
  return consented === null || consented.plugin_id !== presence?.plugin?.plugin_id;
}

function Switch({ runtime }: { runtime: Runtime }): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const notes = useNotes();
  const queries = useQueryClient();
  const { runtime_id: id, revision } = runtime;
  const change = useMutation({
    mutationFn: (enabled: boolean) => changeRuntime({ path: { runtime_id: id }, body: { enabled, revision } }),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["runtimes"] }),
  });
  if (!may("plugins.write")) return null;
  if (!runtime.enabled) return <Button busy={change.isPending} onClick={() => change.mutate(true, { onError: notes.failed })}>{t("runtime.enable")}</Button>;
  return <Confirm trigger={<Button>{t("runtime.disable")}</Button>} title={t("runtime.disableTitle", { id })} action={t("runtime.disable")} onConfirm={() => change.mutateAsync(false)}>{t("runtime.disableWords")}</Confirm>;
}

/** What the connected code asks for, and the consent to exactly this code. */
function Consent({ runtime }: { runtime: Runtime }): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const notes = useNotes();
  const queries = useQueryClient();
  const { runtime_id: id, presence } = runtime;
  const consent = presence?.consent ?? undefined;
  const consenting = useMutation({
    mutationFn: () => consentRuntime({ path: { runtime_id: id }, body: { consent: consent ?? "" } }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["runtimes"] });
      notes.done(t("runtime.consentGiven", { id }));
    },
  });
  const plugin = presence?.plugin;
  const asks = presence?.asks ?? runtime.consented?.asks;
  if (asks === undefined) return null;
  const waits = runtime.status === "waiting" && consent !== undefined && plugin != null;
  const { added, removed } = presence?.change ?? { added: [], removed: [] };
  return (
    <Card title={t("runtime.asks", { plugin: plugin?.plugin_id ?? runtime.consented?.plugin_id, version: plugin?.version ?? runtime.consented?.version })}>
      <div className="flex flex-col gap-4">
        {consenting.error === null ? null : <ErrorNote error={consenting.error} />}
        {waits && !isNew(runtime) && added.length + removed.length > 0 ? (
          <ul className="font-mono text-sm wrap-anywhere">
            {added.map((each) => <li key={each} className="flex gap-2 text-wait"><Plus aria-hidden className="mt-0.5 shrink-0" />{each}</li>)}
            {removed.map((each) => <li key={each} className="flex gap-2 text-muted line-through"><Minus aria-hidden className="mt-0.5 shrink-0" />{each}</li>)}
          </ul>
        ) : null}
        <PluginAsks asks={asks} isElsewhere />
        {waits && may("plugins.write") ? (
          <>
            <p className="rounded-md border border-wait-line bg-wait-soft p-3 text-wait">{t("runtime.consentWords", { digest: plugin.digest?.slice(0, 12) })}</p>
            <Button kind="primary" className="self-end" busy={consenting.isPending} onClick={() => consenting.mutate()}>{t("runtime.consent")}</Button>
          </>
        ) : null}
      </div>
    </Card>
  );
}
