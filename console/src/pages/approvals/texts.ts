import { catalogue } from "@/i18n/i18n";

export const inboxTexts = catalogue(
  {
    approvals: "Approvals", description: "Calls that wait for a person, questions of agents, and what was decided.", waiting: "Waiting ({count})", history: "History",
    keys: "j and k, or the arrow keys, move between requests.",
    none: "Nothing waits for you", noneHint: "A request appears here when an agent wants to make a call that needs consent, or asks a question. The policy of an agent says when.", openAgents: "Open agents",
    requests: "Requests that wait", questions: "Questions", calls: "Calls", older: "Show older", noHistory: "No decision yet", noHistoryHint: "Every decision stays here with the person who made it.",
    tool: "Call", agent: "Agent", decision: "Decision", by: "By", when: "When", run: "Run", openRun: "Open run", show: "Show", all: "All", filter: "State",
    granted: "Allowed", denied: "Denied", expired: "Expired", used: "Allowed and made", request: "Request", asks: "{agent} asks",
    more: "More requests wait than this page shows. Decide these first.",
  },
  {
    approvals: "审批", description: "等待人工决定的调用、智能体的提问，以及已做出的决定。", waiting: "待处理（{count}）", history: "历史",
    keys: "按 j、k 或方向键在请求之间移动。",
    none: "没有待处理的请求", noneHint: "当智能体要执行需要同意的调用，或向人提问时，请求会出现在这里。由智能体的策略决定。", openAgents: "打开智能体",
    requests: "待处理的请求", questions: "提问", calls: "调用", older: "显示更早的", noHistory: "还没有决定", noHistoryHint: "每个决定及做出决定的人都会保留在这里。",
    tool: "调用", agent: "智能体", decision: "决定", by: "决定人", when: "时间", run: "运行", openRun: "打开运行", show: "查看", all: "全部", filter: "状态",
    granted: "已允许", denied: "已拒绝", expired: "已过期", used: "已允许并执行", request: "请求", asks: "{agent} 提问",
    more: "还有更多请求未显示。请先处理这些。",
  },
);
