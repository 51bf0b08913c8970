"""What an approval says beside the bytes it is about, in the words of each language. Holds no decision."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bollard.host.agents.words import Locale

__all__ = ["WORDS", "word"]

_EN_US: Final = {
    "label.capability": "tool",
    "label.source": "comes from",
    "label.definition": "its definition",
    "label.target": "acts on",
    "label.agent": "agent",
    "label.run": "run",
    "label.requester": "for",
    "label.risk": "risk",
    "label.effects": "effects",
    "label.why": "asked because",
    "label.flow": "flow",
    "label.arguments": "arguments",
    "label.explanation": "the agent says (not checked)",
    "nobody": "nobody who is known",
    "no_arguments": "no arguments",
    "risk.low": "low",
    "risk.medium": "medium",
    "risk.high": "high",
    "risk.critical": "critical",
    "effects.none": "changes nothing",
    "effects.idempotent": "doing it twice is as doing it once",
    "effects.at_most_once": "doing it twice is not as doing it once; it is done at most once",
    "why.risk": "its risk is high",
    "why.always": "somebody must always be asked",
    "why.flow": "private data, untrusted content and a way out would come together",
    "flow.reads_private": "the run has private data",
    "flow.brings_untrusted": "the run has seen content that nobody vouches for",
    "flow.sends_out": "the run sends something out",
    "note.hidden": "has characters that are not seen; they are named",
    "note.right_to_left": "has letters that are written from right to left; neighbours may change places",
    "attached": "content {number}: {characters} characters, {bytes} bytes, SHA-256 {sha256}",
    "begins": "it begins",
    "ends": "it ends",
}
_ZH_HANS: Final = {
    "label.capability": "工具",
    "label.source": "来源",
    "label.definition": "定义摘要",
    "label.target": "作用对象",
    "label.agent": "智能体",
    "label.run": "运行",
    "label.requester": "代表",
    "label.risk": "风险",
    "label.effects": "影响",
    "label.why": "询问原因",
    "label.flow": "信息流",
    "label.arguments": "参数",
    "label.explanation": "智能体自己的说法（未经核实）",
    "nobody": "未知",
    "no_arguments": "没有参数",
    "risk.low": "低",
    "risk.medium": "中",
    "risk.high": "高",
    "risk.critical": "极高",
    "effects.none": "不改变任何东西",
    "effects.idempotent": "做两次与做一次相同",
    "effects.at_most_once": "做两次与做一次不同；最多做一次",
    "why.risk": "它的风险高",
    "why.always": "规定必须先询问",
    "why.flow": "私密数据、不可信内容与外发途径将同时出现",
    "flow.reads_private": "运行已读取私密数据",
    "flow.brings_untrusted": "运行已看到无人担保的内容",
    "flow.sends_out": "运行会向外发送内容",
    "note.hidden": "含有看不见的字符，已标出其名称",
    "note.right_to_left": "含有从右向左书写的文字，相邻内容的位置可能颠倒",
    "attached": "内容 {number}：{characters} 个字符，{bytes} 字节，SHA-256 {sha256}",
    "begins": "开头",
    "ends": "结尾",
}

WORDS: Final[Mapping[Locale, Mapping[str, str]]] = MappingProxyType(
    {"en_US": MappingProxyType(_EN_US), "zh_Hans": MappingProxyType(_ZH_HANS)}
)
"""By language and key."""


def word(locale: Locale, key: str, **fields: str | int) -> str:
    """The words of a key. What is filled in is never itself read as a template."""
    return WORDS[locale][key].format_map(fields)
