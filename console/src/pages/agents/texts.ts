import { catalogue } from "@/i18n/i18n";

export const texts = catalogue(
  {
    title: "Agents", about: "An agent is a runner with a configuration and a list of what it may do.", add: "New agent", empty: "No agent yet", id: "Id", idHelp: "Lower-case letters, digits, dots, dashes and underscores.",
    label: "Name", runner: "Runner", state: "State", ready: "Ready", away: "Its plugin is not running", off: "Disabled", chat: "Chat", create: "Continue", builtin: "Built in", saved: "Saved {id}.", save: "Save agent",
    configuration: "Configuration", policy: "Other policies", limits: "Limits", permissions: "What it may do", permissionsAbout: "Computed from the form as it stands.", noPermissions: "It may do nothing but answer.", refused: "The host refuses the form as it stands:",
    warnings: "Warnings", deletion: "Events that were bound to it go to no agent. Its past runs stay.", enabled: "Enabled", enabledHelp: "A disabled agent gets no events; its active runs continue.", override: "Save your own version",
    access: "Access", operations: "Operations that the runner asks for", asksNothing: "The runner asks for no operation.", notAsked: "The runner does not ask for it, so it has no effect.", tools: "Tools", agents: "Agents", knowledge_bases: "Knowledge bases", skills: "Skills", models: "Models", files: "Files",
    limited: "Limited to: {names}", unlimit: "Remove the limit",
    test: "Test", testAbout: "A conversation of its own with the saved agent. Its runs count and are recorded like all others.", testSaveFirst: "Save the agent to talk to it here.", testUnsaved: "The form has changes. The test talks to the saved agent: save to test them.",
    testInput: "Test message", testSend: "Send", testStop: "Stop", testClear: "Begin again", testRun: "Open run", testRunning: "Working…", testWaiting: "Waiting for you", testThinking: "Thoughts", testEnded: "The run did not complete: {reason}",
    english: "English", chinese: "Chinese", noForm: "This runner has no settings.", missing: "There is no such runner any more.", noRunner: "The workspace has no runner yet. A plugin brings one.",
  },
  {
    title: "智能体", about: "智能体由运行器、配置和权限清单组成。", add: "新建智能体", empty: "还没有智能体", id: "ID", idHelp: "可用小写字母、数字、点、短横线和下划线。",
    label: "名称", runner: "运行器", state: "状态", ready: "就绪", away: "插件未运行", off: "已停用", chat: "对话", create: "继续", builtin: "内置", saved: "已保存 {id}。", save: "保存智能体",
    configuration: "配置", policy: "其他策略", limits: "限制", permissions: "它可以做什么", permissionsAbout: "根据表单中的内容计算。", noPermissions: "除了回答，它什么也不能做。", refused: "主机不接受当前的表单：",
    warnings: "警告", deletion: "绑定到它的事件将不再有智能体处理，过去的运行会保留。", enabled: "启用", enabledHelp: "停用的智能体不再接收事件，正在进行的运行会继续。", override: "保存为自己的版本",
    access: "访问", operations: "运行器请求的操作", asksNothing: "运行器不请求任何操作。", notAsked: "运行器没有请求此项，因此不起作用。", tools: "工具", agents: "智能体", knowledge_bases: "知识库", skills: "技能", models: "模型", files: "文件",
    limited: "仅限：{names}", unlimit: "取消限制",
    test: "测试", testAbout: "与已保存的智能体单独对话。产生的运行照常计数并记录。", testSaveFirst: "保存智能体后即可在此对话。", testUnsaved: "表单有改动。测试使用已保存的智能体，保存后才能测试改动。",
    testInput: "测试消息", testSend: "发送", testStop: "停止", testClear: "重新开始", testRun: "查看运行", testRunning: "运行中…", testWaiting: "等待你处理", testThinking: "思考过程", testEnded: "运行未完成：{reason}",
    english: "英文", chinese: "中文", noForm: "该运行器没有可配置项。", missing: "该运行器已不存在。", noRunner: "工作区还没有运行器。安装插件即可获得。",
  },
);
