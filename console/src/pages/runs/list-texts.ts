import { catalogue } from "@/i18n/i18n";

export const listTexts = catalogue(
  {
    about: "What the agents do and did. Open a run to see every step, what it cost, and why it failed.",
    label: "Runs", state: "State", input: "Message", agent: "Agent", source: "Channel", actor: "Person", started: "Started", took: "Took", cost: "Cost", actions: "Actions",
    search: "Search the messages", any: "Any", clear: "Clear filters", time: "Time", "1h": "Last hour", "24h": "Last 24 hours", "7d": "Last 7 days", "30d": "Last 30 days",
    new_one: "{count} new run", new_other: "{count} new runs", noInput: "without a text", actionsOf: "Actions of the run {name}", open: "Open", stop: "Stop run…",
    openConversation: "Open conversation",
    empty: "No runs yet", emptyWords: "A run is one piece of work of an agent: it begins with a message or an event and ends with an answer. Say something to an agent, and its run appears here.", emptyAction: "Start a conversation",
    nothing: "No run matches these filters", nothingWords: "Remove a filter, or choose a longer time.", more: "Reading more runs", looking: "Searching older runs",
  },
  {
    about: "智能体正在做和做过的事。打开一个运行，可以看到每一步、费用和失败原因。",
    label: "运行", state: "状态", input: "消息", agent: "智能体", source: "渠道", actor: "人员", started: "开始", took: "用时", cost: "费用", actions: "操作",
    search: "搜索消息", any: "不限", clear: "清除筛选", time: "时间", "1h": "最近一小时", "24h": "最近 24 小时", "7d": "最近 7 天", "30d": "最近 30 天",
    new_one: "{count} 个新运行", new_other: "{count} 个新运行", noInput: "没有文字", actionsOf: "运行 {name} 的操作", open: "打开", stop: "停止运行…",
    openConversation: "打开会话",
    empty: "还没有运行", emptyWords: "运行是智能体的一次工作：从一条消息或一个事件开始，以回答结束。对智能体说点什么，它的运行就会出现在这里。", emptyAction: "开始对话",
    nothing: "没有符合筛选条件的运行", nothingWords: "请去掉一个筛选条件，或选择更长的时间。", more: "正在读取更多运行", looking: "正在查找更早的运行",
  },
);
