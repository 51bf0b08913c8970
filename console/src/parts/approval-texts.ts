import { catalogue } from "@/i18n/i18n";

export const approvalTexts = catalogue(
  {
    waiting: "Waiting for you", waitingOther: "Waiting for someone else", asked: "Asked", expires: "Expires",
    what: "What will run", says: "What the agent says about it", details: "Details", noArguments: "No arguments",
    allow_once: "Allow once", allow_run: "Allow for this run", deny: "Deny", deny_stop: "Deny and stop the run", more: "More decisions",
    keys: "Enter allows once, Backspace denies, while this card has the focus.",
    openFirst: "Open the attached content before you allow this.", attached: "Attached: {place}, {size}", openContent: "Open", openMore: "Show more lines ({rest} left)",
    "note.hidden": "Contains invisible characters, shown by name between ⟪ and ⟫.", "note.right_to_left": "Contains right-to-left letters; neighbouring text may appear swapped.",
    "decided.allow_once": "{name} was allowed once", "decided.allow_run": "{name} was allowed for the rest of the run", "decided.deny": "{name} was denied",
    "decided.deny_stop": "{name} was denied, and the run was stopped", expired: "The request to call {name} has expired", closed: "The request to call {name} is closed",
    by: "by {by}", run: "Open run", digest: "Digest",
  },
  {
    waiting: "等你决定", waitingOther: "等待其他人决定", asked: "请求于", expires: "过期时间",
    what: "将要执行的内容", says: "智能体的说明", details: "详情", noArguments: "没有参数",
    allow_once: "允许一次", allow_run: "本次运行内允许", deny: "拒绝", deny_stop: "拒绝并停止运行", more: "其他决定",
    keys: "此卡片获得焦点时，回车键允许一次，退格键拒绝。",
    openFirst: "请先打开附带的内容，再决定是否允许。", attached: "附带内容：{place}，{size}", openContent: "打开", openMore: "显示更多行（还有 {rest} 行）",
    "note.hidden": "含有不可见字符，其名称标在 ⟪ 与 ⟫ 之间。", "note.right_to_left": "含有从右向左书写的文字，相邻内容的显示顺序可能颠倒。",
    "decided.allow_once": "已允许一次：{name}", "decided.allow_run": "已允许，直到本次运行结束：{name}", "decided.deny": "已拒绝：{name}",
    "decided.deny_stop": "已拒绝并停止运行：{name}", expired: "请求已过期：{name}", closed: "请求已关闭：{name}",
    by: "由 {by} 决定", run: "打开运行", digest: "摘要",
  },
);
