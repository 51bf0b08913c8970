import { catalogue } from "@/i18n/i18n";

export const texts = catalogue(
  {
    title: "Models", about: "Models that agents may call. The default model answers where an agent names none.", add: "Add model", empty: "No model yet",
    emptyAbout: "The demo agent works without one. Add a model to talk to the assistant: choose a provider, paste its key, test it.",
    id: "Id", idHelp: "The name that agents use.", provider: "Provider", choose: "Choose a provider", other: "Another endpoint", style: "Format", address: "Address", name: "Model", nameHelp: "The name of the model at the provider.",
    key: "API key", keyHelp: "Stored sealed under the secret {secret}. It is never shown again.", keyKept: "Empty keeps the stored key ({secret}).", keyless: "Leave it empty if the provider needs no key.", test: "Test", testing: "Asking one short question…",
    works: "It works: {words}", latency: "{time} to the answer", save: "Save model", saved: "Saved {id}.", isDefault: "Default", makeDefault: "Make default", origin: "Origin", builtin: "built in", deletion: "Agents that name it cannot call it any more.",
    more: "More settings", type: "Type", "type.llm": "Chat", "type.embedding": "Embedding", "type.rerank": "Rerank", setDefault: "Use it as default model of this workspace", price: "Price per million tokens", tested: "Tested",
  },
  {
    title: "模型", about: "智能体可以调用的模型。没有指定模型的智能体使用默认模型。", add: "添加模型", empty: "还没有模型",
    emptyAbout: "演示智能体不需要模型。添加模型后即可与助手对话：选择服务商，粘贴密钥，测试。",
    id: "ID", idHelp: "智能体使用的名称。", provider: "服务商", choose: "选择服务商", other: "其他端点", style: "格式", address: "地址", name: "模型", nameHelp: "模型在服务商处的名称。",
    key: "API 密钥", keyHelp: "加密存储为机密 {secret}，不会再次显示。", keyKept: "留空则保留已存储的密钥（{secret}）。", keyless: "该服务商不需要密钥。", test: "测试", testing: "正在提一个简短的问题…",
    works: "可用：{words}", latency: "{time} 后得到回答", save: "保存模型", saved: "已保存 {id}。", isDefault: "默认", makeDefault: "设为默认", origin: "来源", builtin: "内置", deletion: "指定它的智能体将无法再调用它。",
    more: "更多设置", type: "类型", "type.llm": "对话", "type.embedding": "嵌入", "type.rerank": "重排序", setDefault: "设为此工作区的默认模型", price: "每百万 token 价格", tested: "已测试",
  },
);
