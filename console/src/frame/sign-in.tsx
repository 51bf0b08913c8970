import { ApiError, beginSession } from "@bollard/client";
import { Anchor } from "lucide-react";
import { useState, type ReactNode } from "react";
import { ticketError } from "@/api/ticket";
import { catalogue, useLanguage, useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { Command, ErrorNote } from "@/ui/feedback";
import { Field, Input } from "@/ui/field";
import { useTitle } from "@/ui/page";

const texts = catalogue(
  {
    title: "Sign in", expired: "Your session has expired. Sign in again to go on; what you typed is still here.", user: "User", password: "Password",
    workspace: "Workspace", submit: "Sign in", or: "No password? Run this on the host and open the link that it prints:", more: "Sign in to another workspace",
    other: "中文",
  },
  {
    title: "登录", expired: "登录已过期。请重新登录后继续；你输入的内容仍然保留。", user: "用户", password: "密码",
    workspace: "工作区", submit: "登录", or: "没有密码？在主机上运行下面的命令，然后打开它输出的链接：", more: "登录到其他工作区",
    other: "English",
  },
);

/** Asks for a password, or says how to get a link. Over an expired session it lies on top of the page. */
export default function SignIn({ onSignedIn, expired }: { onSignedIn: () => void; expired: boolean }): ReactNode {
  const t = useText(texts);
  const { language, setLanguage } = useLanguage();
  useTitle(t("title"));
  const [error, setError] = useState<unknown>(ticketError);
  const [busy, setBusy] = useState(false);
  const submit = async (form: FormData): Promise<void> => {
    setBusy(true);
    setError(undefined);
    try {
      const text = (name: string): string => (form.get(name) as string | null)?.trim() ?? "";
      const workspace = text("workspace");
      await beginSession({ body: { user: text("user"), password: form.get("password") as string, cookie: true, ...(workspace === "" ? {} : { workspace }) } });
      onSignedIn();
    } catch (failure) {
      if (!(failure instanceof ApiError)) throw failure;
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  return (
    <div className="fixed inset-0 z-50 grid place-items-center overflow-y-auto bg-bg p-4">
      <main className="w-full max-w-sm">
        <div className="mb-6 flex items-center gap-2 text-xl font-semibold">
          <Anchor className="size-6! text-accent" aria-hidden />
          <span className="flex-1">Bollard</span>
          <Button kind="ghost" size="sm" onClick={() => setLanguage(language === "zh" ? "en" : "zh")}>{t("other")}</Button>
        </div>
        <form
          className="flex flex-col gap-4 rounded-lg border border-line bg-surface p-6"
          onSubmit={(event) => {
            event.preventDefault();
            void submit(new FormData(event.currentTarget));
          }}
        >
          <h1>{t("title")}</h1>
          {expired ? <p className="text-muted">{t("expired")}</p> : null}
          {error === undefined ? null : <ErrorNote error={error} />}
          <Field label={t("user")}>{(ids) => <Input {...ids} name="user" autoComplete="username" required autoFocus />}</Field>
          <Field label={t("password")}>{(ids) => <Input {...ids} name="password" type="password" autoComplete="current-password" required />}</Field>
          <details>
            <summary className="text-sm text-muted">{t("more")}</summary>
            <Field label={t("workspace")} className="mt-2">{(ids) => <Input {...ids} name="workspace" placeholder="default" />}</Field>
          </details>
          <Button kind="primary" size="lg" type="submit" busy={busy}>{t("submit")}</Button>
        </form>
        <p className="mt-6 mb-2 text-sm text-muted">{t("or")}</p>
        <Command text="bollard console" />
      </main>
    </div>
  );
}
