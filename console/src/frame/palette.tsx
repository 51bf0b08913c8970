/** The palette (⌘K): go to any page or thing by typing a part of its name. */
import { useNavigate } from "@tanstack/react-router";
import { useQuery } from "@tanstack/react-query";
import { Bot, CornerDownLeft, Hash } from "lucide-react";
import { useEffect, useMemo, useState, type ReactNode } from "react";
import { lists } from "@/api/lists";
import { catalogue, useText } from "@/i18n/i18n";
import { cn } from "@/ui/classes";
import { Input } from "@/ui/field";
import { Dialog } from "@/ui/overlay";
import { pageNames } from "./navigation";
import { useEntries } from "./shell";

const texts = catalogue(
  { title: "Go to", placeholder: "A page, an agent, or the id of a run", nothing: "Nothing has this name.", chatWith: "Chat with {name}", run: "Run {id}" },
  { title: "跳转", placeholder: "页面、智能体或运行 ID", nothing: "没有匹配的内容。", chatWith: "与 {name} 对话", run: "运行 {id}" },
);
const MOST = 12;

interface Target {
  id: string;
  name: string;
  icon: ReactNode;
  path: string;
}

export function Palette({ open, onOpenChange }: { open: boolean; onOpenChange: (open: boolean) => void }): ReactNode {
  const t = useText(texts);
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        onOpenChange(!open);
      }
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, [open, onOpenChange]);
  return (
    <Dialog open={open} onOpenChange={onOpenChange} title={t("title")} className="top-[12vh] translate-y-0">
      {open ? <Choices onChosen={() => onOpenChange(false)} /> : null}
    </Dialog>
  );
}

function Choices({ onChosen }: { onChosen: () => void }): ReactNode {
  const t = useText(texts);
  const navigate = useNavigate();
  const [typed, setTyped] = useState("");
  const [chosen, setChosen] = useState(0);
  const targets = useTargets(typed);
  const go = (target: Target | undefined): void => {
    if (target === undefined) return;
    onChosen();
    void navigate({ to: target.path });
  };
  return (
    <div className="flex flex-col gap-2">
      <Input
        autoFocus
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-targets"
        aria-activedescendant={targets[chosen] === undefined ? undefined : `palette-${targets[chosen].id}`}
        aria-label={t("placeholder")}
        placeholder={t("placeholder")}
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value);
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
      <ul id="palette-targets" role="listbox" aria-label={t("title")} className="flex flex-col">
        {targets.map((target, index) => (
          <li
            key={target.id}
            id={`palette-${target.id}`}
            role="option"
            aria-selected={index === chosen}
            className={cn("flex cursor-pointer items-center gap-2.5 rounded-md px-2 py-1.5", index === chosen && "bg-raised")}
            onMouseMove={() => setChosen(index)}
            onClick={() => go(target)}
          >
            {target.icon}
            <span className="flex-1 truncate">{target.name}</span>
            {index === chosen ? <CornerDownLeft aria-hidden className="text-muted" /> : null}
          </li>
        ))}
      </ul>
      {targets.length === 0 ? <p className="p-2 text-muted">{t("nothing")}</p> : null}
    </div>
  );
}

function useTargets(typed: string): Target[] {
  const t = useText(texts);
  const names = useText(pageNames);
  const entries = useEntries();
  const agents = useQuery(lists.agents);
  return useMemo(() => {
    const words = typed.toLowerCase().trim();
    const pages = entries.map((entry) => ({ id: entry.name, name: names(entry.name), icon: <entry.icon aria-hidden />, path: entry.path, also: entry.name }));
    const chats = (agents.data?.items ?? []).map((agent) => ({ id: `agent-${agent.agent_id}`, name: t("chatWith", { name: agent.agent_id }), icon: <Bot aria-hidden />, path: `/chat?agent=${encodeURIComponent(agent.agent_id)}`, also: agent.agent_id }));
    const runs = /^run_[0-9a-z]+$/.test(words) ? [{ id: words, name: t("run", { id: words }), icon: <Hash aria-hidden />, path: `/runs/${words}`, also: words }] : [];
    return [...runs, ...pages, ...chats].filter((target) => `${target.name} ${target.also}`.toLowerCase().includes(words)).slice(0, MOST);
  }, [typed, entries, agents.data, names, t]);
}
