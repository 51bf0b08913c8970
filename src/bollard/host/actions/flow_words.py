"""What is said of things that would flow together, in both languages. Holds no decision."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["FLOW_WORDS", "LANGUAGES"]

_EN_US: Final = {
    "had.reads_private": "has private data",
    "had.brings_untrusted": "has seen content from outside",
    "had.sends_out": "has sent data out",
    "does.reads_private": "reads private data",
    "does.brings_untrusted": "brings content from outside",
    "does.sends_out": "sends data out",
    "and": " and ",
    "nothing": "the run has touched nothing yet",
    "before": "the run {had}",
    "both": "{before}, and this call {does}",
    "refused": "{name} may not be called: {together}; that needs a yes, and nobody attends to this run",
}
_ZH_HANS: Final = {
    "had.reads_private": "已有私密数据",
    "had.brings_untrusted": "已看到外部内容",
    "had.sends_out": "已向外发送数据",
    "does.reads_private": "会读取私密数据",
    "does.brings_untrusted": "会带入外部内容",
    "does.sends_out": "会向外发送数据",
    "and": "，且",
    "nothing": "运行尚未接触任何数据",
    "before": "运行{had}",
    "both": "{before}，而此调用{does}",
    "refused": "不能调用 {name}：{together}；这需要有人同意，而此运行无人值守",
}

LANGUAGES: Final = ("en_US", "zh_Hans")
FLOW_WORDS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType({"en_US": _EN_US, "zh_Hans": _ZH_HANS})
