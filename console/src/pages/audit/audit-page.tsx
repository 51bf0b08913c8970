/** Audit: whether the log is unchanged, its records, its signed heads, and how to verify it from outside. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { useText } from "@/i18n/i18n";
import { Page } from "@/ui/page";
import { Tabs } from "@/ui/tabs";
import { FromOutside, Heads } from "./heads";
import { ExportButton, Records } from "./records";
import { auditSearch } from "./search";
import { texts } from "./texts";
import { Verification } from "./verification";

export default function AuditPage(): ReactNode {
  const t = useText(texts);
  const search = useSearch({ from: "/audit" });
  const navigate = useNavigate({ from: "/audit" });
  const tabs = [
    { id: "records", name: t("records"), content: <Records /> },
    { id: "heads", name: t("heads"), content: <Heads /> },
    { id: "outside", name: t("outside"), content: <FromOutside /> },
  ];
  return (
    <Page title={t("title")} description={t("about")} actions={<ExportButton search={search} />}>
      <Verification />
      <Tabs tabs={tabs} value={search.tab ?? "records"} onChange={(tab) => void navigate({ search: auditSearch({ ...search, tab, record: undefined }), replace: true })} />
    </Page>
  );
}
