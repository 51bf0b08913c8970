/** What the palette offers: pages, things by a part of their name, and actions. */
import { useNavigate } from "@tanstack/react-router";
import { useQuery } from "@tanstack/react-query";
import { Bot, Cpu, CornerDownLeft, FolderOpen, GitBranch, Hash } from "lucide-react";
import { useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { lists } from "@/api/lists";
import { useSession } from "@/api/session";
import { catalogue, useText } from "@/i18n/i18n";
import { cn } from "@/ui/classes";
import { Input } from "@/ui/field";
import { resourceGroups } from "@/pages/settings/resource-groups";
import { texts as settingTexts } from "@/pages/settings/texts";
import { useEntries } from "./entries";
import { pageNames } from "./navigation";
import { bestOf, type Target } from "./palette-match";
import { useActions } from "./palette-actions";

const texts = catalogue(
  {
    choices: "Results", nothing: "Nothing has this name.", chatWith: "Chat with {name}", run: "Run {id}",
    page: "Page", agent: "Agent", model: "Model", binding: "Binding", kind: "List", action: "Action", runKind: "Run",
  },
  {
    choices: "结果", nothing: "没有匹配的内容。", chatWith: "与 {name} 对话", run: "运行 {id}",
    page: "页面", agent: "智能体", model: "模型", binding: "绑定", kind: "列表", action: "操作", runKind: "运行",
  },
);

interface ChoicesProps {
  /** The name of the field. */
  label: string;
  typed: string;
  onTyped: (typed: string) => void;
  /** Whether Enter was pressed before this was loaded. */
  isEntered: boolean;
  onChosen: () => void;
}

export default function Choices({ label, typed, onTyped, isEntered, onChosen }: ChoicesProps): ReactNode {
  const t = useText(texts);
  const navigate = useNavigate();
  const [chosen, setChosen] = useState(0);
  const targets = useTargets(typed);
  const go = (target: Target | undefined): void => {
    if (target === undefined) return;
    onChosen();
    if (target.act === undefined) void navigate({ to: target.path });
    else target.act();
  };
  const first = useRef(isEntered);
  useEffect(() => {
    if (first.current) go(targets[0]);
    first.current = false;
  });
  return (
    <div className="flex flex-col gap-2">
      <Input
        autoFocus
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-targets"
        aria-activedescendant={targets[chosen] === undefined ? undefined : `palette-${targets[chosen].id}`}
        aria-label={label}
        placeholder={label}
        value={typed}
        onChange={(event) => {
          onTyped(event.target.value);
          setChosen(0);
        }}
        onKeyDown={(event) => {
          if (event.nativeEvent.isComposing) return;
          if (event.key === "ArrowDown") setChosen((chosen + 1) % Math.max(1, targets.length));
          else if (event.key === "ArrowUp") setChosen((chosen + targets.length - 1) % Math.max(1, targets.length));
          else if (event.key === "Enter") go(targets[chosen]);
          else return;
          event.preventDefault();
        }}
      />
      <ul id="palette-targets" role="listbox" aria-label={t("choices")} className="flex flex-col">
        {targets.map((target, index) => (
          <li
            key={target.id}
            id={`palette-${target.id}`}
            role="option"
            aria-selected={index === chosen}
            ref={index === chosen ? (row) => row?.scrollIntoView({ block: "nearest" }) : undefined}
            className={cn("flex cursor-pointer items-center gap-2.5 rounded-md px-2 py-1.5", index === chosen && "bg-raised")}
            onMouseMove={() => setChosen(index)}
            onClick={() => go(target)}
          >
            {target.icon}
            <span dir="auto" className="min-w-0 flex-1 truncate">{target.name}</span>
            <span className="shrink-0 text-sm text-muted">{t(target.kind)}</span>
            <CornerDownLeft aria-hidden className={cn("text-muted", index !== chosen && "invisible")} />
          </li>
        ))}
      </ul>
      {targets.length === 0 ? <p className="p-2 text-muted">{t("nothing")}</p> : null}
    </div>
  );
}

function useTargets(typed: string): Target[] {
  const t = useText(texts);
  const { may } = useSession();
  const pages = usePages();
  const actions = useActions();
  const agents = useQuery({ ...lists.agents, enabled: may("agents.read") });
  const models = useQuery({ ...lists.models, enabled: may("models.read") });
  const bindings = useQuery({ ...lists.bindings, enabled: may("bindings.read") });
  return useMemo(() => {
    const ids = (agents.data?.items ?? []).map((agent) => agent.agent_id);
    const things: Target[] = [
      ...(may("runs.create") ? ids.map((id): Target => ({ id: `chat-${id}`, kind: "agent", name: t("chatWith", { name: id }), icon: <Bot aria-hidden />, path: `/chat?agent=${encodeURIComponent(id)}`, also: id })) : []),
      ...ids.map((id): Target => ({ id: `agent-${id}`, kind: "agent", name: id, icon: <Bot aria-hidden />, path: `/agents/${encodeURIComponent(id)}`, also: id })),
      ...(models.data?.items ?? []).map(({ model_id: id }): Target => ({ id: `model-${id}`, kind: "model", name: id, icon: <Cpu aria-hidden />, path: `/models?open=${encodeURIComponent(JSON.stringify(id))}`, also: id })),
      ...(bindings.data?.items ?? []).map(({ binding_id: id }): Target => ({ id: `binding-${id}`, kind: "binding", name: id, icon: <GitBranch aria-hidden />, path: `/bindings?open=${encodeURIComponent(JSON.stringify(id))}`, also: id })),
    ];
    const words = typed.trim();
    const runs: Target[] = /^run_[0-9a-z]+$/.test(words) && may("runs.read") ? [{ id: words, kind: "runKind", name: t("run", { id: words }), icon: <Hash aria-hidden />, path: `/runs/${words}`, also: words }] : [];
    return words === "" ? [...actions, ...pages] : [...runs, ...bestOf([...pages, ...actions, ...things], words)];
  }, [typed, pages, actions, agents.data, models.data, bindings.data, may, t]);
}

/** The pages of the rail, and the lists that the settings lead to. */
function usePages(): Target[] {
  const names = useText(pageNames);
  const kindNames = useText(settingTexts);
  const { may } = useSession();
  const entries = useEntries();
  return useMemo(() => {
    const pages = entries.map((entry): Target => ({ id: entry.name, kind: "page", name: names(entry.name), icon: <entry.icon aria-hidden />, path: entry.path, also: entry.name }));
    const known = new Set(entries.map((entry) => entry.path));
    const kinds = resourceGroups.flatMap((group) => group.kinds).filter(([kind, right]) => may(right) && !known.has(`/resources/${kind}`));
    return [...pages, ...kinds.map(([kind]): Target => ({ id: `kind-${kind}`, kind: "kind", name: kindNames(kind), icon: <FolderOpen aria-hidden />, path: `/resources/${kind}`, also: kind }))];
  }, [entries, names, kindNames, may]);
}
