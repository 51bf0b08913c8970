import { changePlugin, removePlugin, restartPlugin, type Plugin } from "@bollard/client";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";
import { lists } from "@/api/lists";
import { useSession } from "@/api/session";
import { useFormats } from "@/i18n/format";
import { useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { Input } from "@/ui/field";
import { Confirm } from "@/ui/overlay";
import { useNotes } from "@/ui/toast";
import { InstallSheet } from "./install-sheet";
import { texts } from "./texts";

export function pathOf(plugin: string): { author: string; name: string } {
  const [author = "", name = ""] = plugin.split("/");
  return { author, name };
}

/** Restart, enable, update and remove, for people who may. */
export function PluginActions({ plugin }: { plugin: Plugin }): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const notes = useNotes();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [updating, setUpdating] = useState(false);
  const path = pathOf(plugin.plugin_id);
  const name = plugin.plugin_id;
  const refresh = (): Promise<void> => queries.invalidateQueries({ queryKey: ["plugins"] });
  const toggle = useMutation({ mutationFn: () => changePlugin({ path, body: { enabled: !plugin.enabled, revision: plugin.revision } }), onSuccess: refresh, onError: notes.failed });
  const restart = async (): Promise<void> => {
    await restartPlugin({ path });
    notes.done(t("restarted"));
    await refresh();
  };
  const remove = async (): Promise<void> => {
    await removePlugin({ path, query: { revision: plugin.revision } });
    notes.done(t("removed", { name }));
    await navigate({ to: "/plugins" });
    await queries.invalidateQueries({ queryKey: lists.plugins.queryKey });
  };
  if (!may("plugins.write")) return null;
  const own = plugin.origin === "installed";
  return (
    <>
      {own ? <Button onClick={() => setUpdating(true)}>{t("update")}</Button> : null}
      {own ? <Button busy={toggle.isPending} onClick={() => toggle.mutate()}>{t(plugin.enabled ? "disable" : "enable")}</Button> : null}
      {plugin.status === "disabled" ? null : (
        <Confirm trigger={<Button kind={plugin.status === "quarantined" ? "wait" : "secondary"}>{t(plugin.status === "quarantined" ? "endQuarantine" : "restart")}</Button>} title={t("restartTitle", { name })} action={t("restart")} onConfirm={restart}>
          {t("restartWords")}
        </Confirm>
      )}
      {own ? <Confirm trigger={<Button kind="danger">{t("remove")}</Button>} title={t("removeTitle", { name })} action={t("remove")} onConfirm={remove}>{t("removeWords")}</Confirm> : null}
      {updating ? <InstallSheet onClose={() => setUpdating(false)} /> : null}
    </>
  );
}

/** The wanted number of workers. Only an installed plugin has one that people change. */
export function Workers({ plugin }: { plugin: Plugin }): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const { number } = useFormats();
  const notes = useNotes();
  const queries = useQueryClient();
  const [typed, setTyped] = useState(String(plugin.workers));
  const saving = useMutation({
    mutationFn: () => changePlugin({ path: pathOf(plugin.plugin_id), body: { workers: Number(typed), revision: plugin.revision } }),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["plugins"] });
      notes.done(t("workersSaved"));
    },
    onError: notes.failed,
  });
  if (!may("plugins.write") || plugin.origin !== "installed") return number(plugin.workers);
  return (
    <form
      className="flex items-center gap-2"
      onSubmit={(event) => {
        event.preventDefault();
        saving.mutate();
      }}
    >
      <Input type="number" min={1} aria-label={t("workers")} className="w-20" value={typed} onChange={(event) => setTyped(event.target.value)} />
      {Number(typed) === plugin.workers ? null : <Button type="submit" size="sm" busy={saving.isPending}>{t("saveWorkers")}</Button>}
    </form>
  );
}
