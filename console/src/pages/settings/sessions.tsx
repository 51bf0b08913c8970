import { endOtherSession, listSessions, type Session } from "@bollard/client";
import { useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { POLLED } from "@/api/queries";
import { useText } from "@/i18n/i18n";
import { Badge } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Card, Time } from "@/ui/data";
import { ErrorNote, Skeleton } from "@/ui/feedback";
import { Confirm } from "@/ui/overlay";
import { useNotes } from "@/ui/toast";
import { texts } from "./texts";

/** The own sign-ins, and a way to end the others. */
export function SessionsCard(): ReactNode {
  const t = useText(texts);
  const query = useInfiniteQuery({
    queryKey: ["sessions"],
    queryFn: ({ pageParam }) => listSessions({ query: pageParam === "" ? {} : { cursor: pageParam } }),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor,
    meta: POLLED,
  });
  const sessions = query.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <Card title={t("sessions")}>
      {query.error === null ? null : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending ? <Skeleton rows={2} /> : null}
      <ul className="-my-2 divide-y divide-line">{sessions.map((session) => <Row key={session.session_id} session={session} />)}</ul>
      {query.hasNextPage ? <Button size="sm" className="mt-4" busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>{t("moreSessions")}</Button> : null}
    </Card>
  );
}

function Row({ session }: { session: Session }): ReactNode {
  const t = useText(texts);
  const notes = useNotes();
  const queries = useQueryClient();
  const end = async (): Promise<void> => {
    await endOtherSession({ path: { session_id: session.session_id } });
    await queries.invalidateQueries({ queryKey: ["sessions"] });
    notes.done(t("sessionEnded"));
  };
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2">
      <span className="min-w-0 flex-1">
        <span className="block font-mono text-sm wrap-anywhere">{session.address}</span>
        <span className="block text-sm text-muted">{t("sessionBegun")} <Time at={session.created_at} /> · {t("expires")} <Time at={session.expires_at} /></span>
      </span>
      {session.current ? <Badge tone="accent">{t("sessionCurrent")}</Badge> : (
        <Confirm trigger={<Button size="sm">{t("endSession")}</Button>} title={t("endSessionTitle")} action={t("endSession")} onConfirm={end}>{t("endSessionWords", { address: session.address })}</Confirm>
      )}
    </li>
  );
}
