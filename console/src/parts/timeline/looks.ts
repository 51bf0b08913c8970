/** The words, icons and colours of spans. */
import {
  Ban, Bot, BookKey, CirclePlay, CircleQuestionMark, Cpu, Database, FileText, Flag, GitBranch, Inbox, MessageSquare, Milestone,
  Send, ShieldQuestionMark, ShieldX, ShipWheel, TriangleAlert, Workflow, Wrench, Circle, type LucideIcon,
} from "lucide-react";
import { catalogue } from "@/i18n/i18n";
import type { Span, SpanKind } from "./span";

export const kindTexts = catalogue(
  {
    event: "Event", run: "Run", route: "Route", grant: "Grant", start: "Start", model: "Model", tool: "Tool", child: "Agent", approval: "Approval",
    question: "Question", message: "Message", state: "State", artifact: "File", steering: "Steering", call: "Host call", cancel: "Cancel",
    revoked: "Revocation", problem: "Problem", end: "End", delivery: "Delivery", other: "Record",
    tree: "What the run did, step by step", step: "Step", time: "Time", took: "Took",
    open: "goes on", waiting: "waits for a person", done: "done", failed: "failed", cancelled: "cancelled", unknown: "outcome unknown",
    fallback: "instead of {name}", expand: "Show the steps inside", collapse: "Hide the steps inside",
  },
  {
    event: "事件", run: "运行", route: "路由", grant: "授权", start: "启动", model: "模型", tool: "工具", child: "智能体", approval: "审批",
    question: "提问", message: "消息", state: "状态", artifact: "制品", steering: "引导", call: "主机调用", cancel: "取消",
    revoked: "撤销", problem: "问题", end: "结束", delivery: "投递", other: "记录",
    tree: "运行的每一步", step: "步骤", time: "时间", took: "用时",
    open: "进行中", waiting: "等待人工处理", done: "完成", failed: "失败", cancelled: "已取消", unknown: "结果未知",
    fallback: "替代 {name}", expand: "展开内部步骤", collapse: "收起内部步骤",
  },
);

export const icons: Record<SpanKind, LucideIcon> = {
  event: Inbox, run: Workflow, route: GitBranch, grant: BookKey, start: CirclePlay, model: Cpu, tool: Wrench, child: Bot,
  approval: ShieldQuestionMark, question: CircleQuestionMark, message: MessageSquare, state: Database, artifact: FileText, steering: ShipWheel,
  call: Milestone, cancel: Ban, revoked: ShieldX, problem: TriangleAlert, end: Flag, delivery: Send, other: Circle,
};

/** The colour of a bar. What went well stays quiet; the kinds differ in strength, so that they differ in grey too. */
export function barColour(span: Span): string {
  if (span.state === "failed") return "bg-fail";
  if (span.state === "waiting" || span.kind === "approval" || span.kind === "question") return "bg-wait-line";
  if (span.state === "unknown") return "bg-unknown";
  if (span.state === "open") return "bg-accent";
  if (span.kind === "model") return "bg-accent/70";
  if (span.kind === "message") return "bg-accent/35";
  if (span.kind === "tool" || span.kind === "child") return "bg-text/55";
  return "bg-muted/40";
}

/** The colour of a row's icon and name. */
export function tone(span: Span): string {
  if (span.state === "failed") return "text-fail";
  if (span.state === "waiting") return "text-wait";
  if (span.state === "unknown") return "text-unknown";
  if (span.state === "open" && span.kind !== "run") return "text-accent-text";
  return span.kind === "call" || span.kind === "state" || span.kind === "other" || span.kind === "start" ? "text-muted" : "text-text";
}
