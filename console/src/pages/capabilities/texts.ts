import { catalogue } from "@/i18n/i18n";

export const texts = catalogue(
  {
    title: "Capabilities", about: "What agents of this workspace can be given: tools, skills, models, other agents. An offer grants nothing: an agent gets what its policy names.",
    agent: "Agent", everything: "Everything that is offered", find: "Find", findHelp: "A name or an id", none: "Nothing matches", noneAbout: "Try a shorter name, or show everything that is offered.", all: "Show everything",
    empty: "Nothing is offered yet", emptyAbout: "Install a plugin or add an MCP server: their tools appear here.", count_one: "{count} capability", count_other: "{count} capabilities",
    reads_private: "reads private data", brings_untrusted: "brings untrusted content", sends_out: "sends something out", noFlow: "No private data, no foreign content, nothing sent out",
    "effects.none": "Changes nothing", "effects.idempotent": "May be repeated safely", "effects.at_most_once": "Acts once",
    "approval.never": "No approval", "approval.on_risk": "Approval at high risk", "approval.always": "Always asks",
    unavailable: "Unavailable", absent: "The workspace cannot offer {thing} now: {problem}", gets: "Gets it", missing: "Does not get it", why: "Why", details: "Details", version: "Version", digest: "Digest of the definition", id: "Id", calledAs: "Name for the model", operations: "Operations",
    getsNone: "This agent asks for no capability", getsNoneAbout: "It talks, and calls nothing. Its policy can add capabilities by id.", openAgent: "Open the agent",
    summary_one: "{agent} would get {count} capability in a run that begins now.", summary_other: "{agent} would get {count} capabilities in a run that begins now.", lacks_one: "{count} that it asks for is missing.", lacks_other: "{count} that it asks for are missing.",
    "source.builtin": "Built in", "source.agents": "Agents", "source.models": "Models", "source.skills": "Skills", "source.knowledge": "Knowledge", "source.none": "Not available",
  },
  {
    title: "能力", about: "可以授权给本工作区智能体的一切：工具、技能、模型、其他智能体。列出不等于授权：智能体只获得其策略中写明的能力。",
    agent: "智能体", everything: "提供的全部能力", find: "查找", findHelp: "名称或 ID", none: "没有匹配项", noneAbout: "请缩短名称，或显示全部能力。", all: "显示全部",
    empty: "还没有提供任何能力", emptyAbout: "安装插件或添加 MCP 服务器后，其工具会出现在这里。", count_one: "{count} 项能力", count_other: "{count} 项能力",
    reads_private: "读取私密数据", brings_untrusted: "带入不可信内容", sends_out: "向外发送内容", noFlow: "不涉及私密数据、外来内容或外发",
    "effects.none": "不改变任何东西", "effects.idempotent": "可安全重复", "effects.at_most_once": "只执行一次",
    "approval.never": "无需审批", "approval.on_risk": "高风险时审批", "approval.always": "每次都审批",
    unavailable: "不可用", absent: "工作区现在无法提供 {thing}：{problem}", gets: "可获得", missing: "不可获得", why: "原因", details: "详情", version: "版本", digest: "定义摘要", id: "ID", calledAs: "模型看到的名称", operations: "操作",
    getsNone: "该智能体没有请求任何能力", getsNoneAbout: "它只对话，不调用任何能力。可在其策略中按 ID 添加。", openAgent: "打开智能体",
    summary_one: "现在开始的运行中，{agent} 会获得 {count} 项能力。", summary_other: "现在开始的运行中，{agent} 会获得 {count} 项能力。", lacks_one: "它请求的 {count} 项无法获得。", lacks_other: "它请求的 {count} 项无法获得。",
    "source.builtin": "内置", "source.agents": "智能体", "source.models": "模型", "source.skills": "技能", "source.knowledge": "知识库", "source.none": "不可用",
  },
);
