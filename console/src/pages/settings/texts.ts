import { catalogue } from "@/i18n/i18n";

export const texts = catalogue(
  {
    title: "Settings", people: "People and access", things: "What agents use", links: "Connections", users: "Users", keys: "API keys", workspaces: "Workspaces", actors: "Linked accounts",
    secrets: "Secrets", files: "Files", skills: "Skills", bots: "Bots", channels: "Channels", subscriptions: "Outgoing webhooks", runtimes: "Runtimes", conversations: "Conversations",
    account: "Your account", name: "Name", role: "Role", workspace: "Workspace", rightsName: "Rights", rights_one: "{count} right", rights_other: "{count} rights", expires: "Session ends",
    password: "Change password", old: "Current password", new: "New password", change: "Change password", changed: "The password is changed. Your other sessions have ended.",
    sessions: "Your sessions", sessionBegun: "Signed in", sessionCurrent: "This session", endSession: "End this session", endSessionTitle: "End this session?", endSessionWords: "Its browser or program at {address} is signed out at once.", sessionEnded: "The session has ended.", moreSessions: "Load more",
    host: "Host", status: "Status", ready: "Accepts work", notReady: "Does not accept work", reasons: "Reasons", drain: "Stop accepting work", resume: "Accept work again",
    confinement: "Confinement of plugins", level_full: "Full", level_namespaces: "Own processes, files and network", level_landlock: "Files and TCP", level_none: "None: plugins have the rights of the host's user",
    drainTitle: "Stop accepting work?", drainText: "Active runs go on. New runs and events are refused until the host accepts work again.", draining: "The host stops accepting work.", resumed: "The host accepts work again.",
    linkTitle: "Link a chat account", linkText: "Send this code to the bot in a private chat, with /link before it. It works once, for some minutes.", linkMake: "Make a code", linkRedeem: "Or enter the code that the bot gave you:", code: "Code", redeem: "Link", linked: "The account is linked to you.",
    personTitle: "Data of a person", person: "Person", personHelp: "A user id, or an account of a chat platform as type:id.", exportPerson: "Export records", erase: "Erase person", eraseTitle: "Erase {person}?",
    eraseText: "The user, sessions, keys, linked accounts and uploads are deleted, and the records of this person lose their data. It cannot be undone. Backups still hold the data until they are restored or deleted.",
    erased_one: "Erased {person}: {count} record lost its data.", erased_other: "Erased {person}: {count} records lost their data.",
  },
  {
    title: "设置", rightsName: "权限", people: "人员与访问", things: "智能体使用的资源", links: "连接", users: "用户", keys: "API 密钥", workspaces: "工作区", actors: "关联账号",
    secrets: "机密", files: "文件", skills: "技能", bots: "机器人", channels: "渠道", subscriptions: "外发 Webhook", runtimes: "运行时", conversations: "会话",
    account: "你的账户", name: "名称", role: "角色", workspace: "工作区", rights_one: "{count} 项权限", rights_other: "{count} 项权限", expires: "登录有效至",
    password: "修改密码", old: "当前密码", new: "新密码", change: "修改密码", changed: "密码已修改，其他登录已失效。",
    sessions: "你的登录", sessionBegun: "登录时间", sessionCurrent: "当前登录", endSession: "结束此登录", endSessionTitle: "结束此登录？", endSessionWords: "位于 {address} 的浏览器或程序会立即退出登录。", sessionEnded: "登录已结束。", moreSessions: "加载更多",
    host: "主机", status: "状态", ready: "接受任务", notReady: "不接受任务", reasons: "原因", drain: "停止接受任务", resume: "恢复接受任务",
    confinement: "插件的隔离", level_full: "完整", level_namespaces: "独立的进程、文件和网络", level_landlock: "文件和 TCP", level_none: "无：插件拥有主机用户的权限",
    drainTitle: "停止接受任务？", drainText: "正在进行的运行会继续。恢复之前，新的运行和事件会被拒绝。", draining: "主机已停止接受任务。", resumed: "主机已恢复接受任务。",
    linkTitle: "关联聊天账号", linkText: "在私聊中把 /link 和这个验证码发给机器人。它只能使用一次，几分钟内有效。", linkMake: "生成验证码", linkRedeem: "或输入机器人给你的验证码：", code: "验证码", redeem: "关联", linked: "账号已与你关联。",
    personTitle: "个人数据", person: "人员", personHelp: "用户 ID，或聊天平台的账号 type:id。", exportPerson: "导出记录", erase: "清除此人", eraseTitle: "清除 {person}？",
    eraseText: "用户、登录、密钥、关联账号和上传的文件会被删除，此人的记录会失去数据。此操作不可撤销。备份中的数据会保留，直到备份被恢复或删除。",
    erased_one: "已清除 {person}：{count} 条记录的数据已清除。", erased_other: "已清除 {person}：{count} 条记录的数据已清除。",
  },
);
