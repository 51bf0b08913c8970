import { rollbackPlugin, type Plugin } from "@bollard/client";
import { useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useSession } from "@/api/session";
import { useText } from "@/i18n/i18n";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Id, Table, Time } from "@/ui/data";
import { Confirm } from "@/ui/overlay";
import { useNotes } from "@/ui/toast";
import { pathOf } from "./plugin-actions";
import { texts } from "./texts";

type Earlier = Plugin["earlier"][number];

/** The current version, and those that a person may return to. */
export function PluginVersions({ plugin }: { plugin: Plugin }): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const notes = useNotes();
  const queries = useQueryClient();
  const rollback = async ({ digest, version }: Earlier): Promise<void> => {
    await rollbackPlugin({ path: pathOf(plugin.plugin_id), body: { digest } });
    await queries.invalidateQueries({ queryKey: ["plugins"] });
    notes.done(t("rolledBack", { name: plugin.plugin_id, version }));
  };
  return (
    <div className="flex flex-col gap-3">
      <p className="flex flex-wrap items-center gap-2"><span className="font-mono text-sm">{plugin.version ?? "—"}</span>{plugin.digest === null ? null : <Id id={plugin.digest} />}<Badge tone="accent">{t("current")}</Badge></p>
      {plugin.earlier.length === 0 ? <p className="text-muted">{t("noEarlier")}</p> : (
        <Table
          label={t("versions")}
          rows={plugin.earlier}
          id={(row) => row.digest}
          columns={[
            { name: t("version"), cell: (row) => <span className="font-mono text-sm">{row.version}</span> },
            { name: t("digest"), cell: (row) => <Id id={row.digest} /> },
            { name: t("consented"), className: "max-sm:hidden", cell: (row) => <span>{row.consented_by} <Time at={row.consented_ms / 1000} className="text-muted" /></span> },
            ...(may("plugins.write")
              ? [{
                  name: "",
                  className: "text-right",
                  cell: (row: Earlier) => (
                    <Confirm trigger={<Button size="sm">{t("rollback")}</Button>} title={t("rollbackTitle", { version: row.version })} action={t("rollback")} onConfirm={() => rollback(row)}>
                      {t("rollbackWords", { version: row.version })}
                    </Confirm>
                  ),
                }]
              : []),
          ]}
        />
      )}
    </div>
  );
}
