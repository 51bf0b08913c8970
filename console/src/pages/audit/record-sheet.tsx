import type { AuditedRecord } from "@bollard/client";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useFormats } from "@/i18n/format";
import { useText } from "@/i18n/i18n";
import { RunLink } from "@/parts/run-link";
import { Button } from "@/ui/button";
import { Facts, Id, Json } from "@/ui/data";
import { CopyButton } from "@/ui/feedback";
import { Dialog } from "@/ui/overlay";
import { SeverityBadge } from "./records";
import { texts } from "./texts";

/** One record: what happened, who did it, and its place in the chain. */
export function RecordSheet({ record, onClose }: { record: AuditedRecord; onClose: () => void }): ReactNode {
  const t = useText(texts);
  const { absolute, duration } = useFormats();
  const { run_id: run, capability } = record;
  const footer = run === undefined ? undefined : (
    <>
      <Button asChild kind="ghost"><Link to="/audit" search={{ run }}>{t("onlyRun")}</Link></Button>
      <Button asChild><RunLink run={run}>{t("openRun")}</RunLink></Button>
    </>
  );
  return (
    <Dialog open place="side" title={record.type} description={absolute(record.at)} onOpenChange={onClose} {...(footer === undefined ? {} : { footer })}>
      <div className="flex flex-col gap-5">
        <Facts
          items={[
            [t("severity"), <SeverityBadge key="severity" severity={record.severity} />],
            [t("source"), t(record.observed ? "observed" : "claimed")],
            [t("who"), record.actor],
            [t("agent"), record.agent],
            [t("runner"), record.runner],
            [t("run"), run === undefined ? undefined : <Id key="run" id={run} />],
            [t("subject"), record.subject],
            [t("capability"), capability === undefined ? undefined : <code key="capability" className="font-mono text-sm">{capability.id}</code>],
            [t("outcome"), record.outcome],
            [t("duration"), record.duration_ms === undefined ? undefined : duration(record.duration_ms)],
            [t("trace"), record.trace_id === undefined ? undefined : <Id key="trace" id={record.trace_id} />],
          ]}
        />
        {record.data_dropped === true ? <p className="text-muted">{t("dropped")}</p> : null}
        {record.arguments === undefined ? null : <section><h3 className="mb-1">{t("arguments")}</h3><Json value={record.arguments} /></section>}
        <section>
          <h3>{t("chained")}</h3>
          <p className="mb-2 text-muted">{t("chainAbout")}</p>
          <Facts
            items={[
              [t("chain"), <Hash key="chain" value={record.chain} />],
              [t("position"), record.position],
              [t("hash"), <Hash key="hash" value={record.hash} />],
              [t("dataHash"), <Hash key="data" value={record.data_sha256} />],
              ...Object.entries(record.digests ?? {}).map(([name, value]) => [name, <Hash key={name} value={value} />] as const),
            ]}
          />
        </section>
        <details>
          <summary className="text-muted">{t("raw")}</summary>
          <Json value={record} className="mt-2" />
        </details>
      </div>
    </Dialog>
  );
}

/** A digest in full, to compare it by eye, with a button that copies it. */
export function Hash({ value }: { value: string }): ReactNode {
  return <span className="flex items-start gap-1"><code className="min-w-0 font-mono text-sm break-all">{value}</code><CopyButton text={value} className="-my-1 size-7 shrink-0" /></span>;
}
