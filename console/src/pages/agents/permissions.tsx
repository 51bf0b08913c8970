import { ApiError } from "@bollard/client";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { ask } from "@/api/request";
import { useErrorText } from "@/i18n/errors";
import { useLanguage, useText } from "@/i18n/i18n";
import { PermissionSentences, type PermissionSentence } from "@/parts/permission-sentences";
import type { Fields } from "@/parts/schema-form/schema";
import { Card } from "@/ui/data";
import { ErrorNote, Skeleton } from "@/ui/feedback";
import { reveal } from "./reveal";
import { texts } from "./texts";

/** What the draft may do. */
export function Permissions({ draft }: { draft: Fields }): ReactNode {
  const t = useText(texts);
  const { language } = useLanguage();
  const query = useQuery({
    queryKey: ["agents", "permissions", draft, language],
    queryFn: () => ask<{ items: PermissionSentence[] }>("POST", "/api/v1/agents/permissions", { body: draft, query: { locale: language === "zh" ? "zh_Hans" : "en_US" } }),
    retry: false,
    placeholderData: (before) => before,
  });
  const isRefused = query.error instanceof ApiError && query.error.status === 400;
  const refusal = useErrorText(query.error);
  const sentences = query.data?.items ?? [];
  return (
    <Card title={t("permissions")}>
      <p className="mb-3 text-sm text-muted">{t("permissionsAbout")}</p>
      {query.error === null ? null : isRefused ? <p role="status" className="mb-2 text-sm text-wait">{t("refused")} {refusal.message}</p> : <ErrorNote error={query.error} />}
      {query.isPending ? <Skeleton rows={3} /> : null}
      {query.data !== undefined && sentences.length === 0 ? <p>{t("noPermissions")}</p> : null}
      {isRefused ? null : <PermissionSentences items={sentences} onOpen={reveal} />}
    </Card>
  );
}
