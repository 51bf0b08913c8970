/** The login of a server with OAuth. Its window returns to an address of this machine, which the person pastes. */
import { ApiError, beginMcpLogin, completeMcpLogin, logoutMcpServer, type McpServerWhole } from "@bollard/client";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { useText } from "@/i18n/i18n";
import { Button } from "@/ui/button";
import { ErrorNote } from "@/ui/feedback";
import { Field, Input } from "@/ui/field";
import { Confirm } from "@/ui/overlay";
import { useNotes } from "@/ui/toast";
import { texts } from "./texts";

/** Nothing listens there: the browser keeps the address, and the person copies it. */
const RETURN = "http://127.0.0.1:8765/callback";

export function ServerLogin({ server }: { server: McpServerWhole }): ReactNode {
  const t = useText(texts);
  const notes = useNotes();
  const queries = useQueryClient();
  const [address, setAddress] = useState("");
  const path = { server_id: server.server_id };
  const refresh = (): Promise<void> => queries.invalidateQueries({ queryKey: ["mcp-servers"] });
  const begin = useMutation({ mutationFn: () => beginMcpLogin({ path, body: { redirect_uri: RETURN } }) });
  const complete = useMutation({
    mutationFn: () => completeMcpLogin({ path, body: answerOf(address, t("loginBad"), t("loginBadHint")) }),
    onSuccess: async () => {
      begin.reset();
      await refresh();
      notes.done(t("loggedIn"));
    },
  });
  const error = complete.error ?? begin.error;
  const link = begin.data?.authorization_url;
  return (
    <div className="flex flex-col gap-3 rounded-md border border-line p-3">
      {error === null ? null : <ErrorNote error={error} />}
      <div className="flex flex-wrap gap-2">
        {link === undefined ? <Button kind={server.status === "needs_login" ? "wait" : "secondary"} busy={begin.isPending} onClick={() => begin.mutate()}>{t("login")}</Button> : null}
        {link !== undefined && /^https?:/.test(link) ? <Button asChild kind="wait"><a href={link} target="_blank" rel="noreferrer noopener">{t("openAgain")}</a></Button> : null}
        {server.status === "needs_login" ? null : (
          <Confirm trigger={<Button>{t("logout")}</Button>} title={t("logoutTitle", { id: server.server_id })} action={t("logout")} onConfirm={async () => {
            await logoutMcpServer({ path });
            await refresh();
            notes.done(t("loggedOut"));
          }}>{t("logoutWords")}</Confirm>
        )}
      </div>
      {link === undefined ? null : (
        <form className="flex flex-col gap-2" onSubmit={(event) => {
          event.preventDefault();
          complete.mutate();
        }}>
          <Field label={t("loginAddress")} help={t("loginOpened")}>{(ids) => <Input {...ids} className="font-mono" placeholder={`${RETURN}?code=…&state=…`} value={address} onChange={(event) => setAddress(event.target.value)} />}</Field>
          <Button type="submit" kind="primary" className="self-start" busy={complete.isPending} disabled={address.trim() === ""}>{t("loginDone")}</Button>
        </form>
      )}
    </div>
  );
}

function answerOf(address: string, message: string, hint: string): { code: string; state: string; iss?: string } {
  const query = new URLSearchParams(address.slice(address.indexOf("?") + 1).trim());
  const [code, state, iss] = [query.get("code"), query.get("state"), query.get("iss")];
  if (code === null || state === null) throw new ApiError({ code: "invalid_argument", message, hint }, 0);
  return { code, state, ...(iss === null ? {} : { iss }) };
}
