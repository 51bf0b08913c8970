/** How the workspace is: four numbers, what needs a person, and the last 24 hours as plots. */
import { getOverview, listRuns } from "@bollard/client";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { pageNames } from "@/frame/navigation";
import { useText } from "@/i18n/i18n";
import { ErrorNote, Skeleton } from "@/ui/feedback";
import { Page } from "@/ui/page";
import { Attention } from "./attention";
import { Numbers, runsOf, sum } from "./numbers";
import { Plots } from "./plots";
import { texts } from "./texts";
import { Welcome } from "./welcome";

const COUNTING_MS = 1_000;
/** Hours pass and parts fail without a change of a run. */
const REFRESH_MS = 60_000;

export default function OverviewPage(): ReactNode {
  const t = useText(texts);
  const names = useText(pageNames);
  const overview = useQuery({ queryKey: ["overview"], queryFn: () => getOverview(), refetchInterval: (query) => (query.state.data?.complete === false ? COUNTING_MS : REFRESH_MS) });
  const any = useQuery({ queryKey: ["runs", "any"], queryFn: () => listRuns({ query: { limit: 1 } }) });
  const data = overview.data;
  const untouched = data !== undefined && any.data?.items.length === 0 && sum(data.hours, runsOf) === 0;
  return (
    <Page title={names("overview")} {...(data === undefined || untouched ? {} : { description: t("about") })}>
      {overview.error === null ? null : <ErrorNote error={overview.error} onRetry={() => void overview.refetch()} />}
      {data === undefined || any.isLoading ? (overview.error === null ? <Skeleton rows={8} /> : null) : untouched ? <Welcome /> : (
        <>
          <Numbers overview={data} />
          <Attention overview={data} />
          <Plots overview={data} />
          {data.complete ? null : <p role="status" className="text-sm text-muted">{t("counting")}</p>}
          {data.hidden_agents === 0 ? null : <p className="text-sm text-muted">{t("hidden", { count: data.hidden_agents })}</p>}
        </>
      )}
    </Page>
  );
}
