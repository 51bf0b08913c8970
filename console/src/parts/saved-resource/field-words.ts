/**
 * The words of forms, in two languages: labels, help and values. A key is a field's name, or its kind and path:
 * `agents.policy.gate`. English help comes from the OpenAPI document, unless it has an entry here. A test finds gaps.
 */

export const chineseLabels: Readonly<Record<string, string>> = {
  abilities: "渠道能力", actor: "账号（type:id）", actor_rate: "每人速率", actors: "参与者", agent_id: "智能体", agents: "智能体", allow: "允许", bot: "机器人", bot_id: "机器人",
  channel_id: "渠道", channels: "渠道", commands: "聊天命令", conversation_id: "会话", conversation_rate: "每会话速率", conversations: "会话", created_at: "创建时间", created_by: "创建者",
  content: "内容", dedupe: "去重方式", deny: "拒绝", description: "说明", disabled: "已停用", edits_per_s: "每秒编辑次数", en_US: "英文", zh_Hans: "中文", enabled: "启用", enrolled_at: "注册时间",
  expires_at: "过期时间", expires_in_s: "有效期（秒）", files: "文件", filter_in: "输入内容筛选", filter_out: "输出内容筛选", groups: "群聊中的回答方式", idle_s: "空闲多少秒后开始新会话",
  ignore_bots: "忽略机器人", keywords: "关键词", kind: "类型", label: "显示名称", last_message_at: "最后消息", locale: "语言", made_by: "创建者", max_message_size: "消息最大字符数",
  mime_type: "类型", name: "名称", password: "密码", patterns: "正则表达式", plugin: "限定插件", prefixes: "前缀", private: "回答私聊", private_messages: "支持仅部分人可见的消息", proxy: "代理",
  proxy_secret: "代理登录机密名", readable: "可读取", rights: "权限", role: "角色", rules: "回答规则", runtime_id: "运行时", secret: "签名密钥", secret_name: "名称", set_at: "设置时间",
  set_by: "设置者", size_bytes: "大小", skill_id: "技能", source: "来源", sources: "来源", status: "状态", subscription_id: "Webhook", supports_buttons: "支持按钮", supports_edit: "支持编辑",
  supports_forms: "支持表单", supports_reaction: "支持表情回应", supports_streaming: "支持流式显示", thread_id: "话题", types: "事件类型", url: "地址", usable: "可用", user_id: "用户", value: "值",
  start: "最早时间", until: "最晚时间", event_type: "事件类型", data: "附加数据", conversation: "会话", thread: "话题", reply_target: "回答发往（channel:target）", missed: "错过的触发", missed_limit: "最多补触发次数",
  grace_s: "宽限（秒）", jitter_s: "随机延迟（秒）", paused: "已暂停", verifier: "验证方式", header: "签名请求头", prefix: "签名前缀", encoding: "编码", algorithm: "算法", timestamp_header: "时间戳请求头",
  signed: "签名内容", tolerance_s: "时间容差（秒）", username: "用户名", topics: "主题", event: "事件", type: "类型", topic: "主题", actor_name: "参与者名称", answer: "应答", mode: "方式", wait_s: "等待（秒）",
  format: "格式", body: "内容", content_type: "内容类型", max_bytes: "最大字节数", requests_per_minute: "每分钟请求数", agent: "智能体",
  scope: "范围", channel: "渠道", priority: "优先级", filters: "筛选条件", field: "字段", values: "值",
  model_type: "模型类型", headers: "请求头", context_window: "上下文长度", max_output_tokens: "最大输出 token 数", vision: "可识别图像", extra_args: "附加参数", price: "每百万 token 价格", input: "输入", output: "输出",
  currency: "货币", connect_s: "连接超时（秒）", first_token_s: "首个 token 超时（秒）", tries: "尝试次数", at_once: "并发数", tokens_per_minute: "每分钟 token 数", default: "设为默认", cached_input: "缓存输入",
  source_event_type: "来源事件类型", trigger: "触发方式", surface: "入口", actor_type: "人员类型", subject_type: "主体类型",
  commands_off: "停用的智能体命令", workspace_id: "工作区", per_minute: "每分钟", burst: "突发", words: "词语", outcome: "处理方式", path: "路径", text: "文本", actions: "平台操作",
  embedding: "检索方式", chunk_tokens: "每段 token 数", overlap_tokens: "相邻段重叠 token 数", flow: "数据流", rerank_model: "重排序模型",
  protocol: "协议版本", timeout_s: "超时（秒）", client_id: "客户端 ID", client_secret: "客户端机密", scopes: "授权范围", title: "标题", version: "版本",
  expired: "已过期", key_id: "密钥 ID", problem: "问题", file_id: "文件 ID", sha256: "摘要",
  sandbox: "沙箱", network: "网络", read: "可读路径", write: "可写路径", memory_mib: "内存（MiB）", cpu: "处理器数",
  "mcp-servers.allow": "允许的工具", "models.idle_s": "两段回答之间的最长间隔（秒）", "users.disabled": "停用", "conversations.title": "标题",
  deadline_s: "运行期限（秒）", repeatable: "可安全重复运行", "agents.idle_s": "无输出多少秒后停止运行",
  "agents.policy.access": "访问", "agents.policy.state": "状态", "agents.policy.delivery": "发送", "agents.policy.concurrency": "并发消息", "agents.policy.approval": "审批",
  "agents.policy.budget": "预算", "agents.policy.delegation": "调用其他智能体", "agents.policy.gate": "谁可以对话", "agents.policy.audience": "谁可以干预",
  "agents.policy.access.conversations": "可读取的其他会话", "agents.policy.state.enabled": "保存状态", "agents.policy.state.scopes": "保存范围",
  streaming: "流式发送", reply: "回复收到的消息", target: "默认发送目标", steer_from: "谁可以引导", "agents.policy.concurrency.mode": "运行中收到新消息",
  "agents.policy.approval.mode": "何时需要审批", when_asked: "等待审批时", expires_s: "审批有效期（秒）", other_person: "审批人不能是发起人", "agents.policy.approval.rules": "规则（按顺序，取第一条匹配的）",
  runs_per_day: "每天运行数", runs_at_once: "同时运行数", calls_per_run: "每次运行的 API 调用数", run_output_mib: "每次运行可记录的 MiB", per_run: "每次运行", per_day: "每天", per_actor_day: "每人每天",
  calls: "调用数", tokens: "token 数", cost: "费用", time_s: "总时长（秒）", parallel_calls: "同时调用数", depth: "层数", iterations: "每次运行的调用总数",
  talk: "可以对话的人", messages_per_minute: "每人每分钟消息数", steer: "补充与停止", see: "查看", approve: "审批", who: "范围", "agents.policy.gate.actors": "名单", "agents.policy.audience.steer.actors": "名单",
  "agents.policy.audience.see.actors": "名单", "agents.policy.audience.approve.actors": "名单",
};

/** English labels of names that read badly as they are. */
export const englishLabels: Readonly<Record<string, string>> = {
  url: "Address", mime_type: "Type", secret_name: "Name", subscription_id: "Webhook", expires_in_s: "Valid for (seconds)", edits_per_s: "Edits per second", idle_s: "New conversation after (seconds)",
  proxy_secret: "Secret of the proxy", at_once: "Calls at once", vision: "Reads images", tries: "Attempts", en_US: "English", zh_Hans: "Chinese", actor: "Account", made_by: "Created by", connect_s: "Time to connect (seconds)", first_token_s: "Time to the first token (seconds)",
  key_id: "Key id", file_id: "File id", sha256: "Digest", rerank_model: "Rerank model", embedding: "Search", flow: "Data flow", chunk_tokens: "Tokens of a passage", overlap_tokens: "Tokens shared with the next passage",
  deadline_s: "Deadline (seconds)", repeatable: "May run twice safely", "agents.idle_s": "Stop after silence (seconds)", "models.idle_s": "Time between two pieces (seconds)", "mcp-servers.allow": "Allowed tools",
  "agents.policy.state.enabled": "Keep state", "agents.policy.state.scopes": "State of", "agents.policy.concurrency": "Messages during a run", "agents.policy.concurrency.mode": "A new message", steer_from: "Who may add to a run",
  reply: "Answer the message", target: "Default target", "agents.policy.approval.mode": "Ask", when_asked: "While it waits", expires_s: "Valid for (seconds)", other_person: "Another person must approve",
  "agents.policy.approval.rules": "Rules (the first that matches)", calls_per_run: "API calls of a run", run_output_mib: "MiB that a run may record", per_run: "Each run", per_day: "Each day", per_actor_day: "Each person and day",
  time_s: "Total time (seconds)", "agents.policy.delegation": "Calls of other agents", parallel_calls: "Calls at once", iterations: "Calls of a run in total", "agents.policy.gate": "Who may talk",
  talk: "People", "agents.policy.audience": "Who may intervene", steer: "Steer and stop", who: "People", "agents.policy.gate.actors": "List", "agents.policy.audience.steer.actors": "List", "agents.policy.audience.see.actors": "List",
  "agents.policy.audience.approve.actors": "List", "agents.policy.access.conversations": "Other conversations",
};

/** English help that is better than the description of the API. */
export const englishHelp: Readonly<Record<string, string>> = {
  "knowledge.embedding": "", "agents.policy.budget": "Without a number there is no limit.", "agents.policy.budget.per_run": "", "agents.policy.budget.per_day": "", "agents.policy.budget.per_actor_day": "",
  "agents.policy.delegation": "Without a number there is no limit.", "agents.policy.audience": "People who may edit the agent are not limited.", "agents.policy.audience.steer": "", "agents.policy.audience.see": "", "agents.policy.audience.approve": "",
  "agents.policy.access.conversations": "Conversations whose history the agent may read, by id.", "agents.policy.gate.actors": "`type:id` or `type:*`, one per line.",
  "channels.url": "Messages go here. Without it the channel only receives events.", "subscriptions.url": "Events go here.",
};

export const chineseHelp: Readonly<Record<string, string>> = {
  proxy: "http://HOST:PORT 或 socks5://HOST:PORT，代替主机的代理。", proxy_secret: "保存代理 user:password 的机密名称。",
  "channels.secret": "用于签名发出的消息并验证收到的事件。", "channels.url": "消息发往的地址。留空则渠道只接收事件。", "channels.bot": "事件没有指明机器人时使用的机器人。", "channels.locale": "主机在该渠道中的提示使用的语言。",
  "channels.abilities": "渠道的功能，默认为最少。", "channels.abilities.dedupe": "平台能识别重复的消息，因此可以重新发送。", "channels.abilities.supports_streaming": "边生成边显示，需要支持编辑。",
  "channels.abilities.supports_buttons": "审批和选项显示为按钮，否则显示为文本。", "channels.abilities.supports_forms": "没有选项的问题显示为表单。", "channels.abilities.private_messages": "消息可以只给部分人看：审批只给有权决定的人。",
  "channels.abilities.max_message_size": "一条消息的字符数。", "channels.abilities.edits_per_s": "每秒编辑同一条消息的次数。", "channels.actions": "程序可以执行的平台操作。", "channels.rules": "哪些消息会得到回答。没有规则时全部回答。",
  "channels.rules.private": "在私聊中回答。", "channels.rules.groups": "被提到：提及机器人，或匹配前缀、关键词、正则表达式。", "channels.rules.patterns": "正则表达式，不支持环视和反向引用。",
  "channels.rules.actors": "谁会得到回答。拒绝优先于允许；允许留空时其他人都可以。", "channels.rules.conversations": "哪些会话会得到回答，填写渠道使用的 ID。", "channels.rules.actor_rate": "每分钟平均消息数和突发数。",
  "channels.rules.actor_rate.burst": "留空则等于每分钟的数量。", "channels.rules.conversation_rate": "每分钟平均消息数和突发数。", "channels.rules.conversation_rate.burst": "留空则等于每分钟的数量。",
  "channels.rules.commands_off": "该渠道中停用的智能体命令。", "channels.rules.filter_in": "用于人发送的消息。", "channels.rules.filter_in.outcome": "拦截：消息不发送。打码：用星号替换词语。",
  "channels.rules.filter_out": "用于回答。", "channels.rules.filter_out.outcome": "拦截：消息不发送。打码：用星号替换词语。", "channels.commands": "由主机回答的聊天命令。", "channels.agents": "人们可以用 `/agent` 选择的智能体。", "channels.idle_s": "超过这段时间的消息会开始新会话。",
  "bots.agent_id": "处理没有绑定匹配的事件。", "bots.label": "显示给人看的名称。", "users.name": "显示的名称。", "users.disabled": "该用户无法登录，其密钥失效。", "users.password": "新密码。留空则保持不变。",
  "keys.rights": "密钥的权限，只能是你自己权限的一部分。", "actors.actor": "`type:id`，与渠道事件中的写法相同。", "runtimes.plugin": "该运行时只能提供这个插件。",
  "subscriptions.secret": "用于签名发出的事件。", "subscriptions.url": "事件发往的地址。", "subscriptions.types": "事件类型，`*` 表示全部。", "subscriptions.agents": "只发送这些智能体的运行事件。", "subscriptions.conversations": "只发送这些会话的事件。",
  "subscriptions.sources": "只发送这些来源的事件，`bollard:events` 是主机自己的事件。",
  "agents.policy.access": "运行可以访问的资源。留空表示什么都不能访问。", "agents.policy.access.conversations": "智能体可以读取历史的会话，填写 ID。", "agents.policy.state": "智能体保存的数据。", "agents.policy.delivery": "回答的发送方式。",
  "agents.policy.concurrency": "会话中有运行正在进行时如何处理新消息。", "agents.policy.approval": "哪些操作之前需要审批。", "agents.policy.budget": "不填写表示没有限制。", "agents.policy.delegation": "不填写表示没有限制。",
  "agents.policy.gate": "谁可以与智能体对话，以及频率。", "agents.policy.gate.actors": "`type:id` 或 `type:*`，每行一项。", "agents.policy.audience": "可以编辑智能体的人不受限制。",
  "knowledge.description": "知识库的内容。人和模型据此选择。", "knowledge.flow": "读取它的运行的数据流。", "knowledge.rerank_model": "对检索结果排序的模型。",
  "bindings.scope": "绑定生效的范围。留空的层级匹配所有事件。",
  "hooks.verifier": "如何验证请求。", "hooks.verifier.header": "包含签名、令牌或证书的请求头。", "hooks.verifier.prefix": "签名之前的文本。", "hooks.verifier.encoding": "HMAC 的编码，默认 `hex`。", "hooks.verifier.algorithm": "HMAC 的算法，默认 `sha256`。",
  "hooks.verifier.timestamp_header": "包含时间戳（秒）的请求头。", "hooks.verifier.signed": "HMAC 覆盖的内容，可用 `{body}` 和 `{timestamp}`，默认 `{body}`。", "hooks.verifier.tolerance_s": "签名时间与当前时间的最大差，默认 300。",
  "hooks.verifier.username": "Basic 认证的用户名，密码为签名密钥。", "hooks.verifier.value": "证书正确时代理请求头的值。", "hooks.topics": "会成为事件的主题。留空表示全部。", "hooks.dedupe": "请求的 ID，重复的请求得到第一次的结果。默认使用发送方的 ID，没有 ID 时使用内容摘要。",
  "hooks.event": "把请求变成事件的模板。", "hooks.event.topic": "发送方的事件类型，默认按发送方的惯例。", "hooks.event.actor": "ID，类型为 `hook/` 加路由。", "hooks.event.data": "按字段填写的数据，默认为整个请求内容。",
  "hooks.answer": "事件保存后给发送方的应答。", "hooks.answer.mode": "已接受：返回事件和运行。等待：及时返回运行的回答。固定：返回固定内容。", "hooks.answer.format": "运行回答的格式。", "hooks.answer.status": "固定应答的状态码。",
  "schedules.start": "最早的触发时间。", "schedules.until": "最晚的触发时间。", "schedules.event_type": "触发事件的类型。", "schedules.data": "事件的附加数据。", "schedules.reply_target": "回答发往的位置，写作 `channel:target`。",
  "schedules.missed": "超过宽限期的触发如何处理。", "schedules.missed_limit": "全部补触发时的最大次数。", "schedules.grace_s": "触发可以延迟的秒数，启动失败时在此期间重试。", "schedules.jitter_s": "触发的最大随机延迟。",
  "models.model_type": "留空则由格式决定，通常为对话。", "models.extra_args": "每次调用的参数，调用自身的参数优先。", "models.price": "每百万 token 的价格。", "models.idle_s": "回答中两段之间的最长时间。",
  "models.tries": "一次调用的最多尝试次数。已输出部分回答后不再重试。", "models.default": "本工作区的 `default` 是否指向此模型。",
  "mcp-servers.sandbox": "命令可以使用的网络、文件、内存和处理器，默认没有网络和文件。", "mcp-servers.sandbox.network": "none、域名列表或 open。",
  "mcp-servers.sandbox.read": "命令可以读取的文件和文件夹，须位于 sandbox_roots 之下。", "mcp-servers.sandbox.write": "命令可以读写的文件和文件夹，须位于 sandbox_roots 之下。",
  "mcp-servers.sandbox.memory_mib": "命令及其启动的所有进程的内存，留空则由主机决定。", "mcp-servers.sandbox.cpu": "命令及其启动的所有进程的处理器数，留空则由主机决定。",
  "mcp-servers.auth": "由人登录。", "mcp-servers.client_id": "手动注册的客户端 ID。", "mcp-servers.client_secret": "机密引用，写作 `secret:NAME`。", "mcp-servers.scopes": "请求的授权范围，留空则使用服务器给出的范围。",
};

const everyoneOrListed = { everyone: ["Everyone", "所有人"], listed: ["Only the list", "仅名单"] } as const;
const people = { ...everyoneOrListed, participants: ["People of the conversation", "会话参与者"] } as const;
const blockOrMask = { block: ["Block the message", "拦截"], mask: ["Mask the words", "打码"] } as const;

/** Values in words, English and Chinese. A value without words is shown as it is. */
export const valueWords: Readonly<Record<string, Readonly<Record<string, readonly [string, string]>>>> = {
  "users.role": { viewer: ["Viewer: reads", "查看者：只读"], member: ["Member: talks to agents", "成员：使用智能体"], operator: ["Operator: runs the work", "操作员：管理运行"], admin: ["Admin: everything", "管理员：全部权限"] },
  "channels.locale": { en_US: ["English", "英文"], zh_Hans: ["Chinese", "中文"] },
  "channels.abilities.dedupe": { native: ["By the platform", "由平台去重"], none: ["None", "无"] },
  "channels.rules.groups": { all: ["Every message", "每条消息"], addressed: ["When addressed", "被提到时"], none: ["Never", "不回答"] },
  "channels.rules.filter_in.outcome": blockOrMask, "channels.rules.filter_out.outcome": blockOrMask,
  "knowledge.embedding": { bundled: ["By meaning and words", "按语义和词语"], none: ["By words", "按词语"] },
  "knowledge.flow": { private: ["private data", "私密数据"], untrusted: ["untrusted content", "不可信内容"] },
  "agents.policy.state.scopes": { conversation: ["the conversation", "会话"], actor: ["the person", "人员"], subject: ["the subject", "主体"], runner: ["the runner", "运行器"] },
  "agents.policy.concurrency.mode": {
    steer: ["Goes into the active run", "补充到当前运行"], queue: ["Waits for the active run", "排队等待"], interrupt: ["Stops the active run", "停止当前运行"], reject: ["Is refused", "拒绝"], parallel: ["Starts a run beside it", "并行运行"],
  },
  "agents.policy.concurrency.steer_from": { same_actor: ["The person who started it", "发起人"], conversation: ["Everyone in the conversation", "会话中的所有人"] },
  "agents.policy.approval.mode": { never: ["Never", "不需要"], on_risk: ["At high risk", "高风险时"], always: ["Before every action", "每次操作前"] },
  "agents.policy.approval.when_asked": { park: ["The run waits", "运行等待决定"], fail_fast: ["The call fails at once", "调用立即失败"] },
  "agents.policy.gate.talk": everyoneOrListed, "agents.policy.audience.steer.who": people, "agents.policy.audience.see.who": people, "agents.policy.audience.approve.who": people,
  "hooks.answer.mode": { accepted: ["Accepted at once", "立即接受"], wait: ["Answer of the run", "等待运行的回答"], fixed: ["Fixed body", "固定内容"] },
  "schedules.missed": { skip: ["Skip them", "跳过"], last: ["Start the last one", "补触发最后一次"], all: ["Start all of them", "全部补触发"] },
  "models.model_type": { llm: ["Chat", "对话"], rerank: ["Rerank", "重排序"], embedding: ["Embedding", "嵌入"] },
};
