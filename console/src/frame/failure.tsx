import { Link, type ErrorComponentProps } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { catalogue, useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { Empty, ErrorNote } from "@/ui/feedback";
import { Page } from "@/ui/page";

const texts = catalogue(
  { title: "Error", missing: "This page does not exist", missingHint: "The address may be old or mistyped.", home: "Go to the overview" },
  { title: "错误", missing: "页面不存在", missingHint: "地址可能已失效或输入有误。", home: "前往总览" },
);

/** What a page shows when it fails. The frame around it keeps working. */
export function PageFailed({ error, reset }: ErrorComponentProps): ReactNode {
  const t = useText(texts);
  return <Page title={t("title")}><ErrorNote error={error} onRetry={reset} /></Page>;
}

export function PageMissing(): ReactNode {
  const t = useText(texts);
  return (
    <Page title={t("missing")}>
      <Empty title={t("missingHint")} action={<Button asChild kind="primary"><Link to="/">{t("home")}</Link></Button>} />
    </Page>
  );
}
