"""What the command line says in Chinese about what agents can do."""

from typing import Final

__all__ = ["CAPABILITIES"]

CAPABILITIES: Final = {
    "capabilities": "列出工作区向智能体提供的能力，说明某个智能体为何能用或不能用。\n\n不带子命令时列出全部。",
    "capabilities.list": "列出工作区向智能体提供的能力，以及现在无法提供的。",
    "capabilities.explain": "说明某个智能体的运行可以调用什么，以及原因。\n\n不指明能力时，列出该智能体要求的全部。",
    "capabilities.agent": "智能体的 ID。",
    "capabilities.capability": "能力的 ID，例如 tool:builtin/now，或模型看到的名称。",
    "capabilities.none": "工作区没有提供智能体可以调用的能力。",
    "capabilities.none_asked": "智能体 {agent} 没有要求任何可以调用的能力。",
    "capabilities.column.capability": "能力",
    "capabilities.column.name": "模型看到",
    "capabilities.column.risk": "风险",
    "capabilities.column.flow": "数据流",
    "capabilities.column.about": "说明",
    "capabilities.column.can": "可用",
    "capabilities.column.why": "为何不可用",
    "capabilities.absent": "现在不可用：{reason}",
    "capabilities.can": "{capability}：可以用名称 {name} 调用",
    "capabilities.has": "{capability}：已授予，但不能作为工具调用",
    "capabilities.cannot": "{capability}：不能调用（{code}）",
    "capabilities.graph": "能力图 {digest}",
    "capabilities.flow.reads_private": "读取私有数据",
    "capabilities.flow.brings_untrusted": "带入不可信内容",
    "capabilities.flow.sends_out": "向外发送",
    "capabilities.risk.low": "低",
    "capabilities.risk.medium": "中",
    "capabilities.risk.high": "高",
    "capabilities.risk.critical": "严重",
}
