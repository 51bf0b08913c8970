/** The signed heads of the chains, the key that signs them, and how to verify without this host. */
import { getHeads, type SignedHead } from "@bollard/client";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useText } from "@/i18n/i18n";
import { Card, Facts, Id, Table, Time, type Column } from "@/ui/data";
import { Command, Empty, ErrorNote, Skeleton } from "@/ui/feedback";
import { Hash } from "./record-sheet";
import { texts } from "./texts";

export function Heads(): ReactNode {
  const t = useText(texts);
  const query = useHeads();
  const columns: Column<SignedHead>[] = [
    { name: t("chain"), cell: (row) => <Id id={row.chain} /> },
    { name: t("position"), className: "text-right", cell: (row) => row.position },
    { name: t("signedAt"), className: "max-sm:hidden", cell: (row) => <Time at={row.created_ms / 1000} /> },
    { name: t("hash"), cell: (row) => <Id id={row.hash} /> },
    { name: t("signature"), className: "max-md:hidden", cell: (row) => <Id id={row.signature} /> },
    { name: t("keyId"), className: "max-lg:hidden", cell: (row) => <Id id={row.key_id} /> },
  ];
  return (
    <div className="flex flex-col gap-4">
      {query.error === null ? null : <ErrorNote error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending ? <Skeleton /> : null}
      {query.data === undefined ? null : (
        <>
          <Card title={t("key")}>
            <p className="mb-2 text-muted">{t("keyAbout")}</p>
            <Facts items={[[t("publicKey"), <Hash key="public" value={query.data.public_key} />], [t("keyId"), <Hash key="id" value={query.data.key_id} />]]} />
          </Card>
          {query.data.items.length === 0 ? <Empty title={t("noHeads")}>{t("noHeadsAbout")}</Empty> : <Table label={t("heads")} rows={query.data.items} columns={columns} id={(row) => `${row.chain}-${row.position}`} />}
        </>
      )}
    </div>
  );
}

function useHeads() {
  return useQuery({ queryKey: ["audit", "heads"], queryFn: () => getHeads() });
}

export function FromOutside(): ReactNode {
  const t = useText(texts);
  const key = useHeads().data?.public_key ?? "…";
  const steps = [
    ["stepStore", ["bollard audit verify --data ./data"]],
    ["stepKey", [`bollard audit verify --data ./data --public-key ${key}`]],
    ["stepProof", ["bollard audit prove RUN --out run.json", `bollard audit verify --proof run.json --public-key ${key}`]],
    ["stepHeads", [`curl -H "Authorization: Bearer $BOLLARD_TOKEN" ${location.origin}/api/v1/audit/heads`]],
  ] as const;
  return (
    <div className="flex flex-col gap-4">
      <p className="max-w-prose text-muted">{t("outsideAbout")}</p>
      <ol className="flex flex-col gap-5">
        {steps.map(([step, commands]) => (
          <li key={step} className="flex flex-col items-start gap-1.5">
            <h3>{t(step)}</h3>
            <p className="max-w-prose text-muted">{t(`${step}About`)}</p>
            {commands.map((command) => <Command key={command} text={command} />)}
          </li>
        ))}
      </ol>
    </div>
  );
}
