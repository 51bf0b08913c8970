"""What routing says to people, by key and locale. Keys and fields are the same in every language."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

__all__ = ["WORDS", "Locale", "RoutingKey", "sentence"]

Locale = Literal["en_US", "zh_Hans"]
RoutingKey = Literal[
    "won",
    "outranked_by_scope",
    "outranked_by_filters",
    "outranked_by_priority",
    "outranked_by_name",
    "disabled",
    "scope_differs",
    "scope_absent",
    "filter_differs",
    "filter_absent",
    "direct",
    "no_binding",
    "no_agent",
]

_EN_US: Final[Mapping[RoutingKey, str]] = MappingProxyType(
    {
        "won": "Binding {binding} matches and goes first: agent {agent} gets the event.",
        "outranked_by_scope": "Binding {binding} matches, but {by} has the more specific scope.",
        "outranked_by_filters": "Binding {binding} matches, but {by} filters more fields.",
        "outranked_by_priority": "Binding {binding} matches, but {by} has the higher priority.",
        "outranked_by_name": "Binding {binding} matches, but {by} matches equally and its name comes first.",
        "disabled": "Binding {binding} is switched off.",
        "scope_differs": "Binding {binding} is for {level} {wanted}; the event has {actual}.",
        "scope_absent": "Binding {binding} is for {level} {wanted}; the event has none.",
        "filter_differs": "Binding {binding} wants {field} to be one of {wanted}; the event has {actual}.",
        "filter_absent": "Binding {binding} wants {field} to be one of {wanted}; the event has no such text.",
        "direct": "The event names agent {agent} itself.",
        "no_binding": "No binding matches the event.",
        "no_agent": "Agent {agent} is not there, and no other agent gets the event instead.",
    }
)
_ZH_HANS: Final[Mapping[RoutingKey, str]] = MappingProxyType(
    {
        "won": "绑定 {binding} 匹配且排在最前：事件交给智能体 {agent}。",
        "outranked_by_scope": "绑定 {binding} 匹配，但 {by} 的范围更具体。",
        "outranked_by_filters": "绑定 {binding} 匹配，但 {by} 筛选的字段更多。",
        "outranked_by_priority": "绑定 {binding} 匹配，但 {by} 的优先级更高。",
        "outranked_by_name": "绑定 {binding} 匹配，但 {by} 同等匹配且名称在前。",
        "disabled": "绑定 {binding} 已停用。",
        "scope_differs": "绑定 {binding} 用于 {level} {wanted}；事件的是 {actual}。",
        "scope_absent": "绑定 {binding} 用于 {level} {wanted}；事件没有这一项。",
        "filter_differs": "绑定 {binding} 要求 {field} 为 {wanted} 之一；事件的是 {actual}。",
        "filter_absent": "绑定 {binding} 要求 {field} 为 {wanted} 之一；事件没有这样的文本。",
        "direct": "事件直接指定了智能体 {agent}。",
        "no_binding": "没有绑定与事件匹配。",
        "no_agent": "智能体 {agent} 不存在，事件也不会交给其他智能体。",
    }
)
WORDS: Final[Mapping[Locale, Mapping[RoutingKey, str]]] = MappingProxyType({"en_US": _EN_US, "zh_Hans": _ZH_HANS})


def sentence(key: RoutingKey, fields: Mapping[str, str], locale: Locale = "en_US") -> str:
    """The sentence of a key with its fields filled in. What is filled in is never itself read as a template."""
    return WORDS[locale][key].format_map(fields)
