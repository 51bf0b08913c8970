import { catalogue } from "@/i18n/i18n";

export const texts = catalogue(
  {
    title: "Webhooks", about: "A webhook takes requests of another service, checks their signature, and starts an agent.", add: "Add webhook", empty: "No webhook yet",
    id: "Id", idHelp: "Part of the address.", kind: "Sender", agent: "Agent", byBindings: "Bindings choose", address: "Address", state: "State", enabled: "Enabled", disabled: "Disabled",
    secret: "Secret", secretHelp: "Empty: the host makes one, or keeps the stored one.", event: "Event", text: "Input", textHelp: "A template, for example {example}. Values of the request stand in braces.",
    conversation: "Conversation", more: "More settings", save: "Save webhook", saved: "Saved {id}.", once: "Enter this secret at the sender now: it is shown once.", done: "Done",
    deletion: "Requests to its address are refused from then on.", settings: "Settings", test: "Test", deliveries: "Last requests", sample: "Body of a sample request", headers: "Headers", dry: "Preview only", send: "Send for real",
    outcome: "Outcome", at: "Received", topic: "Topic", size: "Size", run: "Run", noDeliveries: "No request has arrived.", outcome_accepted: "Accepted", outcome_repeated: "Repeated", outcome_handshake: "Handshake", outcome_ignored: "Ignored", outcome_refused: "Refused", outcome_failed: "Failed",
    verdict_missing: "It has no signature.", verdict_malformed: "Its signature cannot be read.", verdict_late: "Its time is too far from now.", verdict_forged: "Its signature is wrong.", verdict_untrusted: "It did not come through a trusted proxy.", verdict_too_large: "It is too large.",
    preview: "The event that this sample becomes", answer: "Answer to the sender", copyAddress: "Address to enter at the sender",
  },
  {
    title: "Webhook", about: "Webhook 接收其他服务的请求，验证签名，然后启动智能体。", add: "添加 Webhook", empty: "还没有 Webhook",
    id: "ID", idHelp: "它是地址的一部分。", kind: "发送方", agent: "智能体", byBindings: "由绑定选择", address: "地址", state: "状态", enabled: "启用", disabled: "停用",
    secret: "签名密钥", secretHelp: "留空：主机生成一个，或保留已存储的。", event: "事件", text: "输入", textHelp: "模板，例如 {example}。花括号中是请求里的值。",
    conversation: "会话", more: "更多设置", save: "保存 Webhook", saved: "已保存 {id}。", once: "请立即把这个机密填到发送方：它只显示一次。", done: "完成",
    deletion: "之后发往该地址的请求会被拒绝。", settings: "设置", test: "测试", deliveries: "最近请求", sample: "示例请求的内容", headers: "请求头", dry: "仅预览", send: "真实发送",
    outcome: "结果", at: "接收时间", topic: "主题", size: "大小", run: "运行", noDeliveries: "还没有收到请求。", outcome_accepted: "已接受", outcome_repeated: "重复", outcome_handshake: "握手", outcome_ignored: "已忽略", outcome_refused: "已拒绝", outcome_failed: "失败",
    verdict_missing: "没有签名。", verdict_malformed: "无法读取签名。", verdict_late: "时间与当前时间相差太大。", verdict_forged: "签名错误。", verdict_untrusted: "没有经过可信的代理。", verdict_too_large: "请求过大。",
    preview: "示例会变成的事件", answer: "给发送方的应答", copyAddress: "填到发送方的地址",
  },
);
