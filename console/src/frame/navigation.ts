/** The pages of the rail: their names, icons, paths, and the right without which a page is not shown. */
import {
  Activity, Bot, BookOpen, Boxes, CalendarClock, CircleCheckBig, FileKey, GitBranch, House, LibraryBig, ListTree, MessageSquare, Plug,
  Radio, ScrollText, Settings, Webhook, Cpu, type LucideIcon,
} from "lucide-react";
import type { Right } from "@/api/session";
import { catalogue } from "@/i18n/i18n";

export const pageNames = catalogue(
  {
    overview: "Overview", chat: "Chat", runs: "Runs", approvals: "Approvals", agents: "Agents", bindings: "Bindings", plugins: "Plugins",
    mcp: "MCP servers", models: "Models", catalogue: "Catalogue", knowledge: "Knowledge", channels: "Channels", schedules: "Schedules",
    webhooks: "Webhooks", audit: "Audit", secrets: "Secrets", settings: "Settings", capabilities: "Capabilities",
    "group.build": "Build", "group.connect": "Connect", "group.operate": "Operate", more: "More",
  },
  {
    overview: "总览", chat: "对话", runs: "运行", approvals: "审批", agents: "智能体", bindings: "绑定", plugins: "插件",
    mcp: "MCP 服务器", models: "模型", catalogue: "目录", knowledge: "知识库", channels: "渠道", schedules: "定时任务",
    webhooks: "Webhook", audit: "审计", secrets: "机密", settings: "设置", capabilities: "能力",
    "group.build": "构建", "group.connect": "连接", "group.operate": "运维", more: "更多",
  },
);

export interface Entry {
  name: Exclude<keyof (typeof pageNames)["en"], `group.${string}` | "more">;
  path: string;
  icon: LucideIcon;
  right?: Right;
}
export interface Group {
  name?: "group.build" | "group.connect" | "group.operate";
  entries: readonly Entry[];
}

export const navigation: readonly Group[] = [
  {
    entries: [
      { name: "overview", path: "/", icon: House, right: "runs.read" },
      { name: "chat", path: "/chat", icon: MessageSquare, right: "runs.create" },
      { name: "runs", path: "/runs", icon: Activity, right: "runs.read" },
      { name: "approvals", path: "/approvals", icon: CircleCheckBig, right: "approvals.read" },
    ],
  },
  {
    name: "group.build",
    entries: [
      { name: "agents", path: "/agents", icon: Bot, right: "agents.read" },
      { name: "bindings", path: "/bindings", icon: GitBranch, right: "bindings.read" },
      { name: "models", path: "/models", icon: Cpu, right: "models.read" },
      { name: "catalogue", path: "/catalogue", icon: LibraryBig, right: "plugins.read" },
      { name: "plugins", path: "/plugins", icon: Boxes, right: "plugins.read" },
      { name: "mcp", path: "/mcp-servers", icon: Plug, right: "mcp.read" },
      { name: "knowledge", path: "/knowledge", icon: BookOpen, right: "knowledge.read" },
    ],
  },
  {
    name: "group.connect",
    entries: [
      { name: "channels", path: "/resources/channels", icon: Radio, right: "channels.read" },
      { name: "schedules", path: "/schedules", icon: CalendarClock, right: "schedules.read" },
      { name: "webhooks", path: "/webhooks", icon: Webhook, right: "hooks.read" },
    ],
  },
  {
    name: "group.operate",
    entries: [
      { name: "audit", path: "/audit", icon: ScrollText, right: "audit.read" },
      { name: "capabilities", path: "/capabilities", icon: ListTree, right: "capabilities.read" },
      { name: "secrets", path: "/resources/secrets", icon: FileKey, right: "secrets.read" },
      { name: "settings", path: "/settings", icon: Settings },
    ],
  },
];

/** The entries of the bar at the bottom of a phone. */
export const bar: readonly Entry["name"][] = ["chat", "runs", "approvals", "agents"];
