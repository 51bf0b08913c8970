/** Schedules: what starts by the clock, when next, and a form that shows the next five instants before it saves. */
import { fireSchedule, type Schedule } from "@bollard/client";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { CalendarX, CirclePause, CirclePlay, Plus } from "lucide-react";
import { useState, type ReactNode } from "react";
import { lists } from "@/api/lists";
import { useSession } from "@/api/session";
import { useFormats } from "@/i18n/format";
import { useText } from "@/i18n/i18n";
import { ListLimit } from "@/parts/list-limit";
import { RunLink } from "@/parts/run-link";
import { editableFields, saveResource } from "@/parts/saved-resource/saving";
import type { Fields } from "@/parts/schema-form/schema";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Table, Time, type Column } from "@/ui/data";
import { Empty, ErrorNote, Skeleton } from "@/ui/feedback";
import { Page } from "@/ui/page";
import { useNotes } from "@/ui/toast";
import { ScheduleSheet } from "./schedule-sheet";
import { texts } from "./texts";

export default function SchedulesPage(): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const [open, setOpen] = useState<Schedule | "new">();
  const query = useQuery(lists.schedules);
  const columns = useColumns(setOpen);
  const rows = query.data?.items ?? [];
  const add = may("schedules.write") ? <Button kind="primary" onClick={() => setOpen("new")}><Plus aria-hidden />{t("add")}</Button> : undefined;
  const isEmpty = query.data !== undefined && rows.length === 0;
  return (
    <Page title={t("title")} description={isEmpty ? undefined : t("about")} actions={rows.length > 0 ? add : undefined}>
      {query.error === null ? null : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending ? <Skeleton /> : null}
      <ListLimit lists={[query.data]} />
      {query.data !== undefined && rows.length === 0 ? <Empty title={t("empty")} action={add} command='bollard schedules add morning --cron "0 9 * * 1-5" --zone Asia/Shanghai --agent demo --message "count 3"'>{t("about")}</Empty> : null}
      {rows.length > 0 ? <Table label={t("title")} rows={rows} columns={columns} id={(row) => row.schedule_id} /> : null}
      {open === undefined ? null : <ScheduleSheet key={open === "new" ? "" : open.schedule_id} schedule={open === "new" ? undefined : open} onClose={() => setOpen(undefined)} />}
    </Page>
  );
}

function useColumns(open: (schedule: Schedule) => void): Column<Schedule>[] {
  const t = useText(texts);
  const { may } = useSession();
  const { duration } = useFormats();
  return [
    { name: t("id"), className: "font-medium", cell: (row) => <button type="button" className="text-left text-accent-text hover:underline" onClick={() => open(row)}>{row.schedule_id}</button> },
    { name: t("when"), cell: (row) => <span className="text-sm whitespace-nowrap">{row.every_s === undefined ? <code className="font-mono">{row.cron ?? row.at}</code> : t("everySaid", { time: duration(row.every_s * 1000) })}<span className="block text-muted">{row.zone}</span></span> },
    { name: t("agent"), className: "max-sm:hidden", cell: (row) => row.agent_id ?? <span className="text-muted">{t("byBindings")}</span> },
    { name: t("next"), className: "max-sm:hidden", cell: (row) => (row.next[0] === undefined ? <span className="text-muted">—</span> : <Time at={Date.parse(row.next[0]) / 1000} />) },
    { name: t("state"), className: "max-md:hidden", cell: (row) => <State schedule={row} /> },
    ...(may("schedules.write") ? [{ name: "", className: "text-right", cell: (row: Schedule) => <Actions schedule={row} /> }] : []),
  ];
}

function State({ schedule }: { schedule: Schedule }): ReactNode {
  const t = useText(texts);
  if (schedule.paused) return <Badge tone="wait" icon={CirclePause}>{t("paused")}</Badge>;
  if (schedule.next.length === 0) return <Badge icon={CalendarX}>{t("ended")}</Badge>;
  return <Badge tone="quiet" icon={CirclePlay}>{t("active")}</Badge>;
}

function Actions({ schedule }: { schedule: Schedule }): ReactNode {
  const t = useText(texts);
  const notes = useNotes();
  const queries = useQueryClient();
  const fields = schedule as unknown as Fields;
  const fire = useMutation({
    mutationFn: () => fireSchedule({ path: { schedule_id: schedule.schedule_id } }),
    onSuccess: () => notes.done(t("fired")),
    onError: notes.failed,
  });
  const pause = useMutation({
    mutationFn: () => saveResource("schedules", schedule.schedule_id, { ...editableFields("schedules", fields), paused: !schedule.paused }, fields),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["schedules"] }),
    onError: notes.failed,
  });
  const run = fire.data?.run_id;
  return (
    <span className="inline-flex flex-wrap justify-end gap-1">
      {run === undefined || run === null ? null : <Button asChild size="sm" kind="ghost"><RunLink run={run}>{t("openRun")}</RunLink></Button>}
      <Button size="sm" busy={fire.isPending} onClick={() => fire.mutate()}>{t("fire")}</Button>
      <Button size="sm" kind="ghost" busy={pause.isPending} onClick={() => pause.mutate()}>{t(schedule.paused ? "resume" : "pause")}</Button>
    </span>
  );
}
