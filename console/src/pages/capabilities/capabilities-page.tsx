/** Capabilities: what the workspace offers, by source; and what one agent would get of it, with the reasons. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, type ReactNode } from "react";
import { useLanguage, useText } from "@/i18n/i18n";
import { AgentSelect } from "@/parts/agent-select";
import { ListLimit } from "@/parts/list-limit";
import { Button } from "@/ui/button";
import { Empty, ErrorNote, Skeleton } from "@/ui/feedback";
import { Field, Input } from "@/ui/field";
import { useNarrow } from "@/ui/media";
import { Page } from "@/ui/page";
import { bySource, type Offer } from "./groups";
import { offersOf } from "./offers";
import { CapabilityPicture } from "./picture";
import { Source } from "./source";
import { texts } from "./texts";

/** In a list of more capabilities than `MANY`, a source with more than `LONG` is folded until a person opens it. */
const MANY = 100;
const LONG = 30;

export default function CapabilitiesPage(): ReactNode {
  const t = useText(texts);
  const { agent, find = "" } = useSearch({ from: "/capabilities" });
  const { language } = useLanguage();
  const query = useQuery(offersOf(agent, language));
  const everything = useQuery(offersOf(undefined, language));
  const groups = useMemo(() => bySource(query.data?.items ?? [], find), [query.data, find]);
  const drawn = useMemo(() => bySource(everything.data?.items ?? [], find), [everything.data, find]);
  const folded = find === "" && (query.data?.items.length ?? 0) > MANY;
  const wide = !useNarrow(768);
  return (
    <Page title={t("title")} description={t("about")}>
      <Choice />
      {query.error === null ? null : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending ? <Skeleton rows={8} /> : null}
      {agent === undefined || query.data === undefined ? null : <Summary agent={agent} offers={query.data.items} />}
      {wide ? <CapabilityPicture groups={drawn} agent={agent} /> : null}
      {query.data !== undefined && groups.length === 0 ? <Nothing searched={find !== ""} agent={agent} /> : null}
      {groups.map(([source, offers]) => <Source key={source} source={source} offers={offers} folded={folded && offers.length > LONG} />)}
      <ListLimit lists={[query.data]} />
    </Page>
  );
}

function Choice(): ReactNode {
  const t = useText(texts);
  const search = useSearch({ from: "/capabilities" });
  const navigate = useNavigate({ from: "/capabilities" });
  const set = (change: { agent?: string | undefined; find?: string | undefined }): void => {
    const { agent, find } = { ...search, ...change };
    void navigate({ search: { ...(agent === undefined ? {} : { agent }), ...(find === undefined || find === "" ? {} : { find }) }, replace: true });
  };
  return (
    <div className="flex flex-wrap items-end gap-3">
      <Field label={t("agent")} className="min-w-0 flex-1 basis-56">
        {(ids) => <AgentSelect ids={ids} value={search.agent ?? ""} none={t("everything")} onChange={(agent) => set({ agent: agent === "" ? undefined : agent })} />}
      </Field>
      <Field label={t("find")} className="min-w-0 flex-1 basis-56">{(ids) => <Input {...ids} type="search" placeholder={t("findHelp")} value={search.find ?? ""} onChange={(event) => set({ find: event.target.value })} />}</Field>
    </div>
  );
}

function Summary({ agent, offers }: { agent: string; offers: readonly Offer[] }): ReactNode {
  const t = useText(texts);
  const got = offers.filter((offer) => offer.present === true).length;
  const lacks = offers.length - got;
  if (offers.length === 0) return null;
  return (
    <p aria-live="polite" className="flex flex-wrap items-center gap-x-3 gap-y-1">
      <span className="font-medium">{t("summary", { agent, count: got })}</span>
      {lacks > 0 ? <span className="text-muted">{t("lacks", { count: lacks })}</span> : null}
      <Link to="/agents/$agentId" params={{ agentId: agent }} className="text-accent-text hover:underline">{t("openAgent")}</Link>
    </p>
  );
}

function Nothing({ searched, agent }: { searched: boolean; agent: string | undefined }): ReactNode {
  const t = useText(texts);
  const all = <Button asChild><Link to="/capabilities" search={{}}>{t("all")}</Link></Button>;
  if (searched) return <Empty title={t("none")} action={all}>{t("noneAbout")}</Empty>;
  if (agent === undefined) return <Empty title={t("empty")} command="bollard capabilities">{t("emptyAbout")}</Empty>;
  const open = <Button asChild><Link to="/agents/$agentId" params={{ agentId: agent }}>{t("openAgent")}</Link></Button>;
  return <Empty title={t("getsNone")} action={open} command={`bollard capabilities explain ${agent}`}>{t("getsNoneAbout")}</Empty>;
}
