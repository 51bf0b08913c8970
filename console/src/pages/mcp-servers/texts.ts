import { catalogue } from "@/i18n/i18n";

export const texts = catalogue(
  {
    title: "MCP servers", about: "An MCP server brings tools. Each tool waits for your consent, and asks again when its definition changes.", empty: "No MCP server is connected", add: "Add server",
    id: "Id", idHelp: "Lower-case letters, digits, dots, dashes and underscores.", state: "State", offered: "Tools", waitingTools: "Waiting for consent", kind: "Connection", server: "Server", program: "Program", address: "Address",
    connected: "Connected", connecting: "Connecting", waiting: "Not connected", needs_login: "Login required", disabled: "Disabled",
    command: "Program", commandHelp: "The host runs it in a sandbox.", args: "Arguments", argsHelp: "One per line. Put no secret here.", env: "Variables", envHelp: "One NAME=value per line. A secret goes in by name: TOKEN=secret:NAME.",
    url: "Address", urlHelp: "https, or http inside your own network.", headers: "Headers", headersHelp: "One Name=value per line. A secret goes in by name: Authorization=Bearer secret:NAME.", oauth: "A person logs in (OAuth)",
    more: "More settings", save: "Save server", saved: "Saved {id}.", try: "Try", tryHelp: "Connects once, lists the tools and disconnects. Nothing is saved.", trying: "The host connects. This takes up to 30 s.", tried: "It answers: {count} tools", triedLogin: "It answers, and asks for a login. Save it, then log in.",
    triedFailed: "It does not answer.", settings: "Settings", tools: "Tools", log: "Errors", readme: "README", noLog: "The server printed nothing on stderr.", noTools: "The server has shown no tool yet.", refresh: "Refresh", refreshed: "The tools are listed again.",
    login: "Log in", logout: "Log out", loggedOut: "Logged out.", logoutTitle: "Log out of {id}?", logoutWords: "The tokens are deleted. Its tools are absent until a person logs in again.",
    loginOpened: "A window of the server is open. After the login it shows an address on this machine that may not load. Paste that address here.", loginAddress: "Address after the login", loginDone: "Finish login", loggedIn: "Logged in.", loginBad: "The address has no code.", loginBadHint: "Copy the whole address, with code and state.", openAgain: "Open the login",
    consent: "Consent", consentAgain: "Consent to the change", withdraw: "Withdraw consent", risk: "Risk", approval: "Approval", agreed: "Consent by {by}", definition: "Definition", diff: "What changed", newTool: "Asks for consent", changedTool: "Definition changed", offeredTool: "Offered", missingTool: "Gone", refusedTool: "Not allowed", unusableTool: "Unusable",
    consentAll: "Consent to all {count} waiting tools", low: "low", medium: "medium", high: "high", critical: "critical", never: "never asks", on_risk: "asks by risk", always: "always asks", readsPrivate: "reads private data", bringsUntrusted: "brings untrusted text", sendsOut: "sends data out",
    deletion: "The server is disconnected. Its consents and its login are deleted, and agents lose its tools.", needs: "It needs these secrets: {secrets}.", openSecrets: "Set secrets", badLine: "Line “{line}” has no “=”.",
  },
  {
    title: "MCP 服务器", about: "MCP 服务器提供工具。每个工具都要你同意，定义变化后会再次询问。", empty: "还没有连接 MCP 服务器", add: "添加服务器",
    id: "ID", idHelp: "可用小写字母、数字、点、短横线和下划线。", state: "状态", offered: "工具", waitingTools: "等待同意", kind: "连接方式", server: "服务器", program: "程序", address: "地址",
    connected: "已连接", connecting: "连接中", waiting: "未连接", needs_login: "需要登录", disabled: "已停用",
    command: "程序", commandHelp: "主机在沙箱中运行它。", args: "参数", argsHelp: "每行一个。不要在这里写机密。", env: "环境变量", envHelp: "每行一个 NAME=value。机密按名称引用：TOKEN=secret:NAME。",
    url: "地址", urlHelp: "https，或内网的 http。", headers: "请求头", headersHelp: "每行一个 Name=value。机密按名称引用：Authorization=Bearer secret:NAME。", oauth: "由人登录（OAuth）",
    more: "更多设置", save: "保存服务器", saved: "已保存 {id}。", try: "试用", tryHelp: "连接一次，列出工具，然后断开。不保存任何内容。", trying: "主机正在连接，最多 30 秒。", tried: "已应答：{count} 个工具", triedLogin: "已应答，需要登录。请先保存，再登录。",
    triedFailed: "没有应答。", settings: "设置", tools: "工具", log: "错误输出", readme: "说明", noLog: "服务器没有输出到 stderr。", noTools: "服务器还没有列出工具。", refresh: "刷新", refreshed: "已重新列出工具。",
    login: "登录", logout: "退出登录", loggedOut: "已退出登录。", logoutTitle: "退出 {id} 的登录？", logoutWords: "令牌会被删除。在有人重新登录之前，它的工具不可用。",
    loginOpened: "服务器的登录窗口已打开。登录后会跳转到本机的一个地址，可能无法加载。请把那个地址粘贴到这里。", loginAddress: "登录后的地址", loginDone: "完成登录", loggedIn: "已登录。", loginBad: "地址中没有 code。", loginBadHint: "请复制完整地址，包括 code 和 state。", openAgain: "打开登录页面",
    consent: "同意", consentAgain: "同意新定义", withdraw: "撤回同意", risk: "风险", approval: "审批", agreed: "由 {by} 同意", definition: "定义", diff: "变化内容", newTool: "等待同意", changedTool: "定义已变化", offeredTool: "可用", missingTool: "已消失", refusedTool: "不允许", unusableTool: "不可用",
    consentAll: "同意全部 {count} 个等待的工具", low: "低", medium: "中", high: "高", critical: "极高", never: "从不询问", on_risk: "按风险询问", always: "总是询问", readsPrivate: "读取私密数据", bringsUntrusted: "引入不可信文本", sendsOut: "向外发送数据",
    deletion: "服务器会断开，对其工具的同意和登录信息会被删除，智能体不能再使用这些工具。", needs: "它需要这些机密：{secrets}。", openSecrets: "设置机密", badLine: "“{line}” 一行没有 “=”。",
  },
);
