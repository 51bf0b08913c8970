import { getHookDeliveries, testHook, type GetHookDeliveriesResponse } from "@bollard/client";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { useFormats } from "@/i18n/format";
import { POLLED } from "@/api/queries";
import { useText } from "@/i18n/i18n";
import { RunLink } from "@/parts/run-link";
import { Badge, type Tone } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Json, Table, Time } from "@/ui/data";
import { ErrorNote, Skeleton } from "@/ui/feedback";
import { Field, Textarea } from "@/ui/field";
import { texts } from "./texts";

/** Sends a sample as its sender would sign it: as a preview, or for real. */
export function Tester({ hook }: { hook: string }): ReactNode {
  const t = useText(texts);
  const queries = useQueryClient();
  const [body, setBody] = useState('{"issue": {"number": 7, "title": "It breaks"}}');
  const test = useMutation({
    mutationFn: (dry: boolean) => testHook({ path: { hook_id: hook }, body: { body, dry_run: dry } }),
    onSettled: () => queries.invalidateQueries({ queryKey: ["hooks", "deliveries", hook] }),
  });
  return (
    <div className="flex flex-col gap-3">
      <Field label={t("sample")}>{(ids) => <Textarea {...ids} className="font-mono text-sm" spellCheck={false} value={body} onChange={(event) => setBody(event.target.value)} />}</Field>
      <div className="flex gap-2">
        <Button kind="primary" busy={test.isPending && test.variables} onClick={() => test.mutate(true)}>{t("dry")}</Button>
        <Button busy={test.isPending && !test.variables} onClick={() => test.mutate(false)}>{t("send")}</Button>
      </div>
      {test.error === null ? null : <ErrorNote error={test.error} />}
      {test.data === undefined ? null : <Json value={test.data} />}
    </div>
  );
}

type Delivery = GetHookDeliveriesResponse["items"][number];
const tones: Record<Delivery["outcome"], Tone> = { accepted: "quiet", repeated: "quiet", handshake: "quiet", ignored: "neutral", refused: "fail", failed: "fail" };
const VERDICTS = ["missing", "malformed", "late", "forged", "untrusted", "too_large"] as const;

/** The verdict on the proof of a request in words; the reason of another error is a code, which the reference explains. */
function Reason({ reason }: { reason: string | null }): ReactNode {
  const t = useText(texts);
  if (reason === null) return null;
  const verdict = VERDICTS.find((each) => each === reason);
  return <span className="block text-sm text-muted">{verdict === undefined ? <code className="font-mono wrap-anywhere">{reason}</code> : t(`verdict_${verdict}`)}</span>;
}

export function Deliveries({ hook }: { hook: string }): ReactNode {
  const t = useText(texts);
  const { bytes } = useFormats();
  const query = useQuery({ queryKey: ["hooks", "deliveries", hook], queryFn: () => getHookDeliveries({ path: { hook_id: hook } }), meta: POLLED });
  if (query.error !== null) return <ErrorNote error={query.error} onRetry={() => void query.refetch()} />;
  if (query.data === undefined) return <Skeleton rows={3} />;
  if (query.data.items.length === 0) return <p className="text-muted">{t("noDeliveries")}</p>;
  return (
    <Table
      label={t("deliveries")}
      rows={query.data.items}
      id={(row) => `${row.received_at}${row.message_id ?? ""}${row.event_id ?? ""}`}
      columns={[
        { name: t("at"), cell: (row) => <Time at={row.received_at} /> },
        { name: t("outcome"), cell: (row) => <><Badge tone={tones[row.outcome]}>{t(`outcome_${row.outcome}`)}</Badge><Reason reason={row.reason} /></> },
        { name: t("topic"), className: "max-sm:hidden", cell: (row) => row.topic ?? "—" },
        { name: t("size"), className: "max-sm:hidden", cell: (row) => bytes(row.size_bytes) },
        { name: t("run"), cell: (row) => (row.run_id === null ? "—" : <RunLink run={row.run_id} className="font-mono text-sm text-accent-text hover:underline">{row.run_id.slice(0, 12)}…</RunLink>) },
      ]}
    />
  );
}
