import { catalogue } from "@/i18n/i18n";

export const texts = catalogue(
  {
    title: "Bindings", about: "A binding sends events to an agent: by source, type, channel, conversation or person. The most exact one goes first.", add: "Add binding", empty: "No event is bound yet",
    id: "Id", idHelp: "Lower-case letters, digits, dots, dashes and underscores.", agent: "Agent", events: "Events", scope: "Where", priority: "Priority", state: "State", on: "Enabled", off: "Disabled",
    all: "every event", and: "and", or: "or", is: "{field} is {values}", save: "Save binding", saved: "Saved {id}.", deletion: "Events that matched it go to the next binding, or to none.",
    filters: "Filters", filtersHelp: "All must match. A filter matches if the field has one of the values.", field: "Field", values: "Values", valuesHelp: "Separated by commas", addFilter: "Add filter", remove: "Remove", more: "Where it holds",
    tester: "What would happen if", testerAbout: "Preview how an event would be routed, and why. Nothing is written.", source: "Source", type: "Type", conversation: "Conversation", actor: "Person", text: "Message", try: "Preview",
    goes: "{agent} gets the event", nobody: "No agent gets the event", why: "Why",
    "decision.start": "A run starts at once.", "decision.steer": "It goes into the active run.", "decision.queue": "It waits for the active run to end.", "decision.interrupt": "The active run is stopped first.", "decision.reject": "The agent rejects it.", refused: "A rule refuses it",
  },
  {
    title: "绑定", about: "绑定把事件交给智能体：按来源、类型、渠道、会话或人。越具体的越优先。", add: "添加绑定", empty: "还没有绑定事件",
    id: "ID", idHelp: "可用小写字母、数字、点、短横线和下划线。", agent: "智能体", events: "事件", scope: "范围", priority: "优先级", state: "状态", on: "启用", off: "停用",
    all: "所有事件", and: "且", or: "或", is: "{field} 为 {values}", save: "保存绑定", saved: "已保存 {id}。", deletion: "原本匹配的事件会交给下一个绑定，或不再处理。",
    filters: "筛选条件", filtersHelp: "须全部匹配。字段等于任一值即为匹配。", field: "字段", values: "值", valuesHelp: "用逗号分隔", addFilter: "添加条件", remove: "移除", more: "生效范围",
    tester: "假设发生……", testerAbout: "仅预演，不会执行：查看事件会如何路由，以及原因。", source: "来源", type: "类型", conversation: "会话", actor: "人员", text: "消息", try: "预演",
    goes: "{agent} 会收到该事件", nobody: "没有智能体处理该事件", why: "原因",
    "decision.start": "立即开始运行。", "decision.steer": "送入正在进行的运行。", "decision.queue": "等待正在进行的运行结束。", "decision.interrupt": "先停止正在进行的运行。", "decision.reject": "智能体拒绝它。", refused: "规则拒绝了它",
  },
);
