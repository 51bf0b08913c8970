/** The tools of a server: their definition, their risk, and consent for each. */
import { consentMcpTools, type McpServerWhole, type McpTool } from "@bollard/client";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { useSession } from "@/api/session";
import { useHostWords } from "@/i18n/errors";
import { useText } from "@/i18n/i18n";
import { RiskBadge } from "@/parts/risk-badge";
import { Badge, type Tone } from "@/ui/badge";
import { Button } from "@/ui/button";
import { Code, Json, Time } from "@/ui/data";
import { Field, Select } from "@/ui/field";
import { useNotes } from "@/ui/toast";
import { texts } from "./texts";

const STATES = {
  new: ["wait", "newTool"], changed: ["wait", "changedTool"], offered: ["quiet", "offeredTool"], missing: ["neutral", "missingTool"], refused: ["neutral", "refusedTool"], unusable: ["fail", "unusableTool"],
} as const satisfies Record<McpTool["state"], [Tone, keyof (typeof texts)["en"]]>;

export function ServerTools({ server }: { server: McpServerWhole }): ReactNode {
  const t = useText(texts);
  const { may } = useSession();
  const notes = useNotes();
  const queries = useQueryClient();
  const waiting = server.tools.filter(asks);
  const consent = useMutation({
    mutationFn: (body: Parameters<typeof consentMcpTools>[0]["body"]) => consentMcpTools({ path: { server_id: server.server_id }, body }),
    onSettled: () => queries.invalidateQueries({ queryKey: ["mcp-servers"] }),
    onError: notes.failed,
  });
  const agree = (tools: readonly McpTool[], chosen: Partial<Chosen> = {}): void =>
    consent.mutate({ tools: tools.flatMap(({ name, definition_sha256 }) => (definition_sha256 === undefined ? [] : [{ name, definition_sha256, ...chosen }])) });
  return (
    <div className="flex flex-col gap-3">
      {server.tools.length === 0 ? <p className="text-muted">{t("noTools")}</p> : null}
      {may("mcp.write") && waiting.length > 1 ? <Button kind="wait" className="self-start" busy={consent.isPending} onClick={() => agree(waiting)}>{t("consentAll", { count: waiting.length })}</Button> : null}
      <ToolList
        tools={server.tools}
        {...(may("mcp.write") ? { actions: (tool: McpTool) => <ToolActions key={tool.definition_sha256} tool={tool} busy={consent.isPending} onConsent={(chosen) => agree([tool], chosen)} onWithdraw={() => consent.mutate({ withdraw: [tool.name] })} /> } : {})}
      />
    </div>
  );
}

function asks(tool: McpTool): boolean {
  return tool.state === "new" || tool.state === "changed";
}

export function ToolList({ tools, actions }: { tools: readonly McpTool[]; actions?: (tool: McpTool) => ReactNode }): ReactNode {
  return <ul className="flex flex-col gap-2">{tools.map((tool) => <Tool key={tool.name} tool={tool}>{actions?.(tool)}</Tool>)}</ul>;
}

function Tool({ tool, children }: { tool: McpTool; children: ReactNode }): ReactNode {
  const t = useText(texts);
  const words = useHostWords();
  const [tone, word] = STATES[tool.state];
  const flow = [tool.flow?.reads_private === true ? t("readsPrivate") : "", tool.flow?.brings_untrusted === true ? t("bringsUntrusted") : "", tool.flow?.sends_out === true ? t("sendsOut") : ""].filter(Boolean);
  return (
    <li className="rounded-md border border-line p-3">
      <div className="flex flex-wrap items-center gap-2">
        <h3 className="font-mono text-sm wrap-anywhere">{tool.name}</h3>
        <Badge tone={tone}>{t(word)}</Badge>
        {tool.risk === undefined ? null : <RiskBadge risk={tool.risk} />}
      </div>
      {tool.description === undefined || tool.description === "" ? null : <p className="mt-1 line-clamp-4 wrap-anywhere whitespace-pre-line">{tool.description}</p>}
      {flow.length === 0 ? null : <p className="text-sm text-muted">{flow.join(" · ")}</p>}
      {tool.problem === "" || asks(tool) ? null : <p className="text-sm text-fail">{words.problem(tool.problem, tool.problem_details)}</p>}
      {tool.agreed === null ? null : <p className="text-sm text-muted">{t("agreed", { by: tool.agreed.by })} · <Time at={tool.agreed.at} /></p>}
      {tool.diff.length === 0 ? null : <div className="mt-2"><p className="text-sm font-medium text-wait">{t("diff")}</p><Code text={tool.diff.join("\n")} label={t("diff")} /></div>}
      {tool.input_schema === undefined ? null : <details className="mt-1"><summary className="text-sm text-muted">{t("definition")}</summary><Json value={{ input: tool.input_schema, output: tool.output_schema ?? undefined }} className="mt-1" /></details>}
      {children}
    </li>
  );
}

interface Chosen {
  risk: NonNullable<McpTool["risk"]>;
  approval: NonNullable<McpTool["approval"]>;
}

function ToolActions({ tool, busy, onConsent, onWithdraw }: { tool: McpTool; busy: boolean; onConsent: (chosen: Chosen) => void; onWithdraw: () => void }): ReactNode {
  const t = useText(texts);
  const [risk, setRisk] = useState(tool.risk ?? "high");
  const [approval, setApproval] = useState(tool.approval ?? "on_risk");
  return (
    <div className="mt-2 flex flex-wrap items-end gap-2">
      {asks(tool) ? (
        <>
          <Field label={t("risk")} className="w-32">{(ids) => <Select {...ids} value={risk} onChange={(event) => setRisk(event.target.value as Chosen["risk"])}>{(["low", "medium", "high", "critical"] as const).map((each) => <option key={each} value={each}>{t(each)}</option>)}</Select>}</Field>
          <Field label={t("approval")} className="w-36">{(ids) => <Select {...ids} value={approval} onChange={(event) => setApproval(event.target.value as Chosen["approval"])}>{(["never", "on_risk", "always"] as const).map((each) => <option key={each} value={each}>{t(each)}</option>)}</Select>}</Field>
          <Button kind="wait" disabled={busy} onClick={() => onConsent({ risk, approval })}>{t(tool.state === "new" ? "consent" : "consentAgain")}</Button>
        </>
      ) : null}
      {tool.agreed === null ? null : <Button kind="ghost" disabled={busy} onClick={onWithdraw}>{t("withdraw")}</Button>}
    </div>
  );
}
