import { changePassword, makeLinkCode, redeemLinkCode } from "@bollard/client";
import { useMutation } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { useSession } from "@/api/session";
import { useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { Card, Facts, Time } from "@/ui/data";
import { Command, ErrorNote } from "@/ui/feedback";
import { Field, Input } from "@/ui/field";
import { useNotes } from "@/ui/toast";
import { texts } from "./texts";

export function AccountCard(): ReactNode {
  const t = useText(texts);
  const { session } = useSession();
  return (
    <Card title={t("account")}>
      <Facts
        items={[
          [t("name"), session.name],
          [t("role"), session.role],
          [t("workspace"), session.workspace],
          [t("rightsName"), t("rights", { count: session.rights.length })],
          [t("expires"), session.expires_at === undefined ? undefined : <Time at={session.expires_at} />],
        ]}
      />
    </Card>
  );
}

export function PasswordCard(): ReactNode {
  const t = useText(texts);
  const notes = useNotes();
  const [old, setOld] = useState("");
  const [fresh, setFresh] = useState("");
  const change = useMutation({
    mutationFn: () => changePassword({ body: { old, new: fresh } }),
    onSuccess: () => {
      setOld("");
      setFresh("");
      notes.done(t("changed"));
    },
  });
  return (
    <Card title={t("password")}>
      <form
        className="flex flex-col gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          change.mutate();
        }}
      >
        {change.error === null ? null : <ErrorNote error={change.error} />}
        <Field label={t("old")}>{(ids) => <Input {...ids} type="password" autoComplete="current-password" required value={old} onChange={(event) => setOld(event.target.value)} />}</Field>
        <Field label={t("new")}>{(ids) => <Input {...ids} type="password" autoComplete="new-password" required value={fresh} onChange={(event) => setFresh(event.target.value)} />}</Field>
        <Button type="submit" className="self-start" busy={change.isPending}>{t("change")}</Button>
      </form>
    </Card>
  );
}

/** Links an account of a chat platform to the person, in either direction. */
export function LinkCard(): ReactNode {
  const t = useText(texts);
  const notes = useNotes();
  const [typed, setTyped] = useState("");
  const make = useMutation({ mutationFn: () => makeLinkCode({ body: {} }) });
  const redeem = useMutation({
    mutationFn: () => redeemLinkCode({ body: { code: typed.trim() } }),
    onSuccess: () => {
      setTyped("");
      notes.done(t("linked"));
    },
  });
  const error = make.error ?? redeem.error;
  return (
    <Card title={t("linkTitle")}>
      <div className="flex flex-col items-start gap-3">
        {error === null ? null : <ErrorNote error={error} className="w-full" />}
        <p className="text-muted">{t("linkText")}</p>
        {make.data === undefined ? <Button busy={make.isPending} onClick={() => make.mutate()}>{t("linkMake")}</Button> : <Command text={`/link ${make.data.code}`} />}
        <form
          className="flex w-full items-end gap-2"
          onSubmit={(event) => {
            event.preventDefault();
            redeem.mutate();
          }}
        >
          <Field label={t("linkRedeem")} className="flex-1">{(ids) => <Input {...ids} value={typed} placeholder={t("code")} onChange={(event) => setTyped(event.target.value)} />}</Field>
          <Button type="submit" disabled={typed.trim() === ""} busy={redeem.isPending}>{t("redeem")}</Button>
        </form>
      </div>
    </Card>
  );
}
