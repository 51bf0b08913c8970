/** A test of an outgoing webhook, and its last deliveries. */
import { listWebhookDeliveries, testSubscription, type WebhookDelivery } from "@bollard/client";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { CircleAlert, CircleCheck, CircleDashed, Send, type LucideIcon } from "lucide-react";
import type { ReactNode } from "react";
import { POLLED } from "@/api/queries";
import { useSession } from "@/api/session";
import { useHostWords } from "@/i18n/errors";
import { useFormats } from "@/i18n/format";
import { useText } from "@/i18n/i18n";
import { Badge, type Tone } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Table, Time } from "@/ui/data";
import { ErrorNote, Skeleton } from "@/ui/feedback";
import { texts } from "./texts";

const looks: Record<WebhookDelivery["status"], [Tone, LucideIcon]> = { waiting: ["wait", CircleDashed], sent: ["quiet", CircleCheck], failed: ["fail", CircleAlert] };

export function SubscriptionDeliveries({ id }: { id: string }): ReactNode {
  const t = useText(texts);
  const { number } = useFormats();
  const words = useHostWords();
  const query = useInfiniteQuery({
    queryKey: ["subscriptions", "deliveries", id],
    queryFn: ({ pageParam }) => listWebhookDeliveries({ path: { subscription_id: id }, query: pageParam === "" ? {} : { cursor: pageParam } }),
    initialPageParam: "",
    getNextPageParam: (page) => page.next_cursor,
    meta: POLLED,
  });
  const rows = query.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <div className="flex flex-col gap-4">
      <TestButton id={id} />
      {query.error === null ? null : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending ? <Skeleton rows={3} /> : null}
      {query.data !== undefined && rows.length === 0 ? <p className="text-muted">{t("delivery.none")}</p> : null}
      {rows.length === 0 ? null : (
        <Table
          label={t("delivery.title")}
          rows={rows}
          id={(row) => row.webhook_id}
          columns={[
            { name: t("delivery.at"), cell: (row) => <Time at={row.updated_at} /> },
            { name: t("delivery.type"), cell: (row) => <code className="font-mono text-sm whitespace-nowrap">{row.type}</code> },
            {
              name: t("delivery.status"),
              cell: (row) => (
                <>
                  <Badge tone={looks[row.status][0]} icon={looks[row.status][1]}>{t(`delivery.${row.status}`)}</Badge>
                  {row.reason === null ? null : <span className="block text-sm text-muted wrap-anywhere">{words.problem(row.reason)}</span>}
                </>
              ),
            },
            { name: t("delivery.attempts"), className: "text-right max-sm:hidden", cell: (row) => number(row.attempts) },
          ]}
        />
      )}
      {query.hasNextPage ? <Button className="self-center" busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>{t("more")}</Button> : null}
    </div>
  );
}

function TestButton({ id }: { id: string }): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const words = useHostWords();
  const queries = useQueryClient();
  const test = useMutation({
    mutationFn: () => testSubscription({ path: { subscription_id: id } }),
    onSettled: () => queries.invalidateQueries({ queryKey: ["subscriptions", "deliveries", id] }),
  });
  if (!may("subscriptions.write")) return null;
  return (
    <div className="flex flex-col gap-2">
      <Button className="self-start" busy={test.isPending} onClick={() => test.mutate()}><Send aria-hidden />{t("delivery.test")}</Button>
      {test.error === null ? null : <ErrorNote error={test.error} />}
      {test.data === undefined ? null : (
        <p role="status" className={test.data.delivered ? undefined : "text-fail"}>{t(test.data.delivered ? "delivery.accepted" : "delivery.refused")} {words.problem(test.data.reason ?? "")}</p>
      )}
    </div>
  );
}
