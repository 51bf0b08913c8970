/** One plugin: its state, what it may do, its versions, its README and its logs. */
import { getPlugin, getPluginDetails, type Plugin, type PluginDetails } from "@bollard/client";
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { useParams } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { POLLED } from "@/api/queries";
import { useHostWords } from "@/i18n/errors";
import { useFormats } from "@/i18n/format";
import { useText } from "@/i18n/i18n";
import { PluginAsks } from "@/parts/plugin-asks/plugin-asks";
import { Card, Facts, Id } from "@/ui/data";
import { ErrorNote, Skeleton } from "@/ui/feedback";
import { Markdown } from "@/ui/markdown";
import { Page } from "@/ui/page";
import { Tabs } from "@/ui/tabs";
import { PluginActions, pathOf, Workers } from "./plugin-actions";
import { PluginLogs } from "./plugin-logs";
import { PluginState } from "./plugin-state";
import { PluginVersions } from "./plugin-versions";
import { texts } from "./texts";

export default function PluginPage(): ReactNode {
  const t = useText(texts);
  const path = useParams({ from: "/plugins/$author/$name" });
  const id = `${path.author}/${path.name}`;
  const query = useQuery({ queryKey: ["plugins", "one", id], queryFn: () => getPlugin({ path }), meta: POLLED });
  const plugin = query.data;
  return (
    <Page title={t("title")} entity={id} actions={plugin === undefined ? undefined : <PluginActions plugin={plugin} />}>
      {query.error === null ? null : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending ? <Skeleton /> : null}
      {plugin === undefined ? null : (
        <>
          <Summary plugin={plugin} />
          <Tabs
            tabs={[
              { id: "permissions", name: t("permissions"), content: <Permissions plugin={plugin} /> },
              { id: "versions", name: t("versions"), content: <PluginVersions plugin={plugin} /> },
              { id: "readme", name: t("readme"), content: <Readme plugin={plugin} /> },
              { id: "logs", name: t("logs"), content: <PluginLogs key={id} plugin={id} /> },
            ]}
          />
        </>
      )}
    </Page>
  );
}

function Summary({ plugin }: { plugin: Plugin }): ReactNode {
  const t = useText(texts);
  const { number } = useFormats();
  const words = useHostWords();
  const problems = [words.problem(plugin.problem ?? "", plugin.problem_details), ...plugin.problems.map((each, index) => words.problem(each, plugin.problems_details[index]))].filter((each) => each !== "");
  return (
    <Card>
      <Facts
        items={[
          [t("state"), <PluginState key="state" status={plugin.status} />],
          [t("problem"), problems.length === 0 ? undefined : <ul className="text-fail wrap-anywhere">{[...new Set(problems)].map((each) => <li key={each}>{each}</li>)}</ul>],
          [t("version"), plugin.version === null ? undefined : <span className="font-mono text-sm">{plugin.version}</span>],
          [t("origin"), t(plugin.origin)],
          [t("source"), plugin.source === "" ? undefined : <span className="wrap-anywhere">{plugin.source}</span>],
          [t("digest"), plugin.digest === null ? undefined : <Id id={plugin.digest} />],
          [t("workers"), <Workers key={plugin.workers} plugin={plugin} />],
          [t("processes"), plugin.processes.length === 0 ? undefined : plugin.processes.map((each) => t("process", { pid: String(each.pid ?? "—"), count: each.runs })).join(", ")],
          ...useConfinement(plugin),
          [t("crashes"), plugin.crashes === 0 ? undefined : t("crashesSaid", { count: plugin.crashes, recent: plugin.recent_crashes })],
          [t("leaving"), plugin.leaving_runs === 0 ? undefined : number(plugin.leaving_runs)],
          [t("runners"), plugin.runners.length === 0 ? undefined : <span className="font-mono text-sm wrap-anywhere">{plugin.runners.join(", ")}</span>],
        ]}
      />
    </Card>
  );
}

/** What each of its workers may use. A plugin on another machine, and one without a worker yet, has none to show. */
function useConfinement({ confinement }: Plugin): [string, ReactNode][] {
  const t = useText(texts);
  if (confinement === null) return [];
  const { level, network, memory_mib: memory, cpu, processes } = confinement;
  const limits = [
    memory === null ? [] : [t("limit_memory", { count: memory })],
    cpu === null ? [] : [t("limit_cpu", { count: cpu })],
    processes === null ? [] : [t("limit_processes", { count: processes })],
  ].flat();
  return [
    [t("confinement"), <span key="level" className={level === "none" ? "text-fail" : undefined}>{t(`level_${level}`)}</span>],
    [t("limits"), limits.length === 0 ? undefined : limits.join(", ")],
    [t("network"), typeof network === "string" ? t(`network_${network}`) : network.join(", ")],
  ];
}

function useDetails(plugin: Plugin): UseQueryResult<PluginDetails> {
  const path = pathOf(plugin.plugin_id);
  return useQuery({ queryKey: ["plugins", "details", plugin.plugin_id, plugin.digest], queryFn: () => getPluginDetails({ path }) });
}

/** A bundled plugin needs no consent; its permissions are those of its manifest. */
function Permissions({ plugin }: { plugin: Plugin }): ReactNode {
  const query = useDetails(plugin);
  const asks = plugin.asks ?? query.data?.asks;
  if (asks !== undefined) return <PluginAsks asks={asks} />;
  return query.error === null ? <Skeleton rows={3} /> : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />;
}

function Readme({ plugin }: { plugin: Plugin }): ReactNode {
  const t = useText(texts);
  const query = useDetails(plugin);
  if (query.error !== null) return <ErrorNote error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data === undefined) return <Skeleton rows={3} />;
  return query.data.readme === null ? <p className="text-muted">{t("noReadme")}</p> : <div className="max-w-prose"><Markdown text={query.data.readme} /></div>;
}
