/** The records, newest first: filters of the address, pages, and the details of one record. */
import { exportAudit, listAudit, type AuditedRecord } from "@bollard/client";
import { useInfiniteQuery, useMutation } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { CircleX, Download, Info, OctagonAlert, Search, TriangleAlert, type LucideIcon } from "lucide-react";
import type { ReactNode } from "react";
import { saveFile } from "@/api/download";
import { useSession } from "@/api/session";
import { useText } from "@/i18n/i18n";
import { Badge, type Tone } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Id, Table, Time, type Column } from "@/ui/data";
import { Empty, ErrorNote, Skeleton } from "@/ui/feedback";
import { Field, Input, Select } from "@/ui/field";
import { RecordSheet } from "./record-sheet";
import { auditQuery, auditSearch, isFiltered, localTime, SEVERITIES, type AuditSearch, type Severity } from "./search";
import { texts } from "./texts";

const PAGE = 50;
const TYPES = [
  "action.completed", "action.failed", "action.rejected", "action.started", "api.denied", "approval.denied", "approval.granted", "approval.requested", "audit.exported", "audit.gap",
  "grant.issued", "grant.revoked", "login.failed", "login.succeeded", "model.called", "plugin.installed", "plugin.refused", "policy.changed", "run.cancelled", "run.created", "run.ended", "secret.used", "token.issued",
  "worker.connection", "worker.violation",
];

export function Records(): ReactNode {
  const t = useText(texts);
  const search = useSearch({ from: "/audit" });
  const navigate = useNavigate({ from: "/audit" });
  const filters = auditQuery(search);
  const query = useInfiniteQuery({
    queryKey: ["audit", "list", filters],
    queryFn: ({ pageParam }) => listAudit({ query: { ...filters, limit: PAGE, ...(pageParam === "" ? {} : { cursor: pageParam }) } }),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor,
  });
  const rows = query.data?.pages.flatMap((page) => page.items) ?? [];
  const open = (record: number | undefined): void => void navigate({ search: auditSearch({ ...search, record }), replace: true });
  const columns = useColumns(open);
  const chosen = rows.find((row) => row.id === search.record);
  const loaded = query.data !== undefined;
  return (
    <div className="flex flex-col gap-3">
      <Filters key={JSON.stringify(filters)} search={search} />
      {query.error === null ? null : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending ? <Skeleton rows={8} /> : null}
      {loaded && rows.length === 0 ? <Empty title={t("none")} command="bollard audit show">{t(query.hasNextPage ? "partial" : "noneAbout")}</Empty> : null}
      {loaded && search.record !== undefined && chosen === undefined ? <p role="status" className="text-muted">{t("away", { id: String(search.record) })}</p> : null}
      {rows.length > 0 ? <Table label={t("records")} rows={rows} columns={columns} id={(row) => String(row.id)} isSelected={(row) => row.id === search.record} /> : null}
      {query.hasNextPage ? <Button className="self-center" busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>{t("more")}</Button> : null}
      {rows.length > 0 && !query.hasNextPage && !isFiltered(search) ? <p className="text-center text-sm text-muted">{t("end")}</p> : null}
      {chosen === undefined ? null : <RecordSheet record={chosen} onClose={() => open(undefined)} />}
    </div>
  );
}

function useColumns(open: (record: number) => void): Column<AuditedRecord>[] {
  const t = useText(texts);
  return [
    { name: t("what"), cell: (row) => <button type="button" className="text-left font-medium text-accent-text hover:underline" onClick={() => open(row.id)}>{row.type}<span className="block text-sm font-normal text-muted sm:hidden"><Time at={row.at} /></span></button> },
    { name: t("severity"), cell: (row) => <SeverityBadge severity={row.severity} /> },
    { name: t("time"), className: "max-sm:hidden", cell: (row) => <Time at={row.at} className="text-muted" /> },
    { name: t("who"), className: "max-md:hidden", cell: (row) => row.actor ?? row.agent ?? <span className="text-muted">—</span> },
    { name: t("outcome"), className: "max-lg:hidden", cell: (row) => row.outcome ?? row.capability?.id ?? <span className="text-muted">—</span> },
    { name: t("position"), className: "text-right max-lg:hidden", cell: (row) => row.position },
    { name: t("hash"), className: "max-md:hidden", cell: (row) => <Id id={row.hash} /> },
  ];
}

const looks: Record<Severity, [Tone, LucideIcon]> = {
  debug: ["quiet", Info],
  info: ["quiet", Info],
  warning: ["wait", TriangleAlert],
  error: ["fail", CircleX],
  critical: ["fail", OctagonAlert],
};

export function SeverityBadge({ severity }: { severity: Severity }): ReactNode {
  const t = useText(texts);
  const [tone, icon] = looks[severity];
  return <Badge tone={tone} icon={icon}>{t(severity)}</Badge>;
}

function Filters({ search }: { search: AuditSearch }): ReactNode {
  const t = useText(texts);
  const navigate = useNavigate({ from: "/audit" });
  const submit = (form: HTMLFormElement): void => {
    const typed = Object.fromEntries(new FormData(form));
    const time = (name: string): number | undefined => (typeof typed[name] === "string" && typed[name] !== "" ? Date.parse(typed[name]) / 1000 : undefined);
    void navigate({ search: auditSearch({ ...typed, since: time("since"), until: time("until") }) });
  };
  return (
    <form
      role="search"
      className="grid grid-cols-2 items-end gap-3 lg:grid-cols-3 rounded-lg border border-line bg-surface p-4"
      onSubmit={(event) => {
        event.preventDefault();
        submit(event.currentTarget);
      }}
    >
      <Field label={t("type")}>{(ids) => <Input {...ids} name="type" list="audit-types" placeholder={t("typeHelp")} defaultValue={search.type} />}</Field>
      <datalist id="audit-types">{TYPES.map((type) => <option key={type} value={type} />)}</datalist>
      <Field label={t("severity")}>
        {(ids) => (
          <Select {...ids} name="severity" defaultValue={search.severity ?? ""} onChange={(event) => event.currentTarget.form?.requestSubmit()}>
            <option value="">{t("anySeverity")}</option>
            {SEVERITIES.slice(1).map((each) => <option key={each} value={each}>{each === "critical" ? t(each) : t("atLeast", { severity: t(each) })}</option>)}
          </Select>
        )}
      </Field>
      <Field label={t("actor")}>{(ids) => <Input {...ids} name="actor" placeholder="user:ann" defaultValue={search.actor} />}</Field>
      <Field label={t("run")}>{(ids) => <Input {...ids} name="run" placeholder="run_…" defaultValue={search.run} />}</Field>
      <Field label={t("since")} className="max-sm:col-span-2">{(ids) => <Input {...ids} type="datetime-local" name="since" defaultValue={localTime(search.since)} />}</Field>
      <Field label={t("until")} className="max-sm:col-span-2">{(ids) => <Input {...ids} type="datetime-local" name="until" defaultValue={localTime(search.until)} />}</Field>
      <div className="col-span-full flex flex-wrap gap-2">
        <Button type="submit"><Search aria-hidden />{t("search")}</Button>
        {isFiltered(search) ? <Button kind="ghost" onClick={() => void navigate({ search: {} })}>{t("clear")}</Button> : null}
      </div>
    </form>
  );
}

/** Saves the records that the filters choose. */
export function ExportButton({ search }: { search: AuditSearch }): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const saving = useMutation({
    mutationFn: async () => {
      const query = { ...auditQuery(search) };
      delete query.actor; // the export has no filter for actors
      saveFile("audit.jsonl", await exportAudit({ query, parseAs: "blob" }));
    },
  });
  if (!may("audit.export")) return null;
  return (
    <div className="flex flex-col items-end gap-2">
      <Button busy={saving.isPending} title={t("exportAbout")} onClick={() => saving.mutate()}><Download aria-hidden />{t("export")}</Button>
      {saving.error === null ? null : <ErrorNote error={saving.error} />}
    </div>
  );
}
