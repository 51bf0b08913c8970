"""命令行关于模型的中文语句。"""

from typing import Final

__all__ = ["MODELS"]

MODELS: Final = {
    # --- 帮助 ---
    "models": "列出主机的模型，添加、试用和移除模型。\n\n不带子命令时列出全部。",
    "models.list": "列出模型，包括来自环境变量的和内置的。",
    "models.show": "显示一个模型，不含密钥。",
    "models.add": "添加模型，或重新保存：它的地址、提供方给它的名称，以及哪个机密是它的密钥。"
    "\n\n这不会让任何智能体可以使用它：由智能体的配置或策略指明它拥有哪些模型。",
    "models.test": "向模型提一个很小的问题，并说明结果。\n\n这是真实的调用，可能花费少量令牌。",
    "models.remove": "移除模型。此后指明它的智能体不能再使用它。",
    "models.id": "模型在这台主机上的名称；default 是默认的那一个。",
    "models.style": "它的端点使用的格式。",
    "models.base_url": "带版本的地址，例如 https://api.openai.com/v1。",
    "models.model": "提供方给模型的名称。",
    "models.secret": "保存密钥的机密，先用 `bollard secrets set NAME` 设置。",
    "models.header": "每次调用都发送的请求头；可以重复。",
    "models.context_window": "一次调用能容纳的令牌数。",
    "models.max_output": "最长回答的令牌数。",
    "models.vision": "它能看图像。",
    "models.price_input": "发送一百万令牌的价格。",
    "models.price_output": "回答一百万令牌的价格。",
    "models.price_cached": "发送且命中提供方缓存的一百万令牌的价格。",
    "models.currency": "价格的货币。",
    "models.at_once": "可以同时进行的调用数。",
    "models.per_minute": "每分钟可以进行的调用数。",
    # --- 显示的内容 ---
    "models.added": "模型 {model} 已保存；试用：bollard models test {model}",
    "models.removed": "模型 {model} 已移除",
    "models.head": "{model}：{type}，{style}",
    "models.alias": "代表 {model}",
    "models.asks": "在 {url} 使用 {name}",
    "models.key": "密钥是机密 {secret}",
    "models.window": "上下文窗口为 {tokens} 个令牌",
    "models.price": "每百万令牌：发送 {input}，回答 {output}，货币 {currency}",
    "models.origin": "来源：{origin}",
    "models.origin.saved": "已保存",
    "models.origin.environment": "环境变量",
    "models.origin.builtin": "内置",
    "models.default": "默认",
    "models.answered": "{model} 在 {ms} 毫秒内作出回答",
    "models.words": "它说：{words}",
    "models.dimensions": "它的向量有 {count} 维",
    "models.failed": "{model} 没有回答（{reason}）：{problem}",
    "models.hint": "可以尝试：{hint}",
    "models.column.id": "模型",
    "models.column.type": "类型",
    "models.column.style": "格式",
    "models.column.model": "提供方名称",
    "models.column.origin": "来源",
    # --- 可能的错误 ---
    "error.models_pair": "--header {word} 不是 NAME=VALUE",
    "hint.models_pair": "写成 --header NAME=VALUE；密钥不是请求头，用 --secret 指明它的机密",
}
