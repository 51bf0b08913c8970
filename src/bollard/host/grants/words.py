"""Why a run may or may not do something, in the words of each language. Holds no decision."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["LANGUAGES", "WORDS"]

_EN_US: Final = {
    "always": "Every run may ask for the host's version and limits.",
    "unknown_action": "The run API has no action {action}.",
    "manifest.names": "The runner's manifest asks for {operation}.",
    "manifest.lacks": "The runner's manifest does not ask for {operation}.",
    "manifest.unable": "The runner's manifest does not have the capability {capability}, which {thing} needs.",
    "manifest.steers": "The runner says that it can be steered.",
    "manifest.does_not_steer": "The runner does not say that it can be steered.",
    "policy.names": "The agent's policy allows {operation}.",
    "policy.lacks": "The agent's policy does not allow {operation}.",
    "policy.adds": "The agent's policy adds {thing}.",
    "policy.cuts": "The agent's policy does not let {thing} through.",
    "policy.state": "The agent's policy keeps state of the {scope}.",
    "policy.no_state": "The agent's policy keeps no state of the {scope}.",
    "policy.steers": "The agent's policy lets messages steer its runs.",
    "policy.does_not_steer": "The agent's policy does not let messages steer its runs.",
    "policy.conversation": "The agent's policy lets the history of conversation {thing} be read.",
    "policy.no_conversation": "The agent's policy does not let the history of conversation {thing} be read.",
    "configuration.selects": "The field {field} of the configuration selects {thing}.",
    "configuration.lacks": "Neither the configuration nor the policy asks for {thing}.",
    "names_nothing": "The call names nothing, and this action needs something to act on.",
    "workspace.offers": "The workspace offers {thing}.",
    "workspace.lacks": "The workspace does not offer {thing}.",
    "workspace.absent": "The workspace cannot offer {thing} now: {why}",
    "workspace.unfit": "{thing} cannot do {operation}.",
    "scope.has": "The event has a {scope}.",
    "scope.lacks": "The event has no {scope}.",
    "parent.lacks": "The run that called for this one did not hold {operation}.",
    "parent.lacks_thing": "The run that called for this one did not hold {thing}.",
    "parent.no_conversation": "The run that called for this one may not read the history of conversation {thing}.",
    "parent.depth": "Agents called by agents go no deeper than this run.",
    "revocation.none": "Nobody took it away since.",
    "revocation.took": "An operator took it away during the run.",
}
_ZH_HANS: Final = {
    "always": "任何运行都可以查询主机的版本和限制。",
    "unknown_action": "运行 API 没有动作 {action}。",
    "manifest.names": "运行器的清单申请了 {operation}。",
    "manifest.lacks": "运行器的清单没有申请 {operation}。",
    "manifest.unable": "运行器的清单没有声明能力 {capability}，而 {thing} 需要它。",
    "manifest.steers": "运行器声明它可以中途接收消息。",
    "manifest.does_not_steer": "运行器没有声明它可以中途接收消息。",
    "policy.names": "智能体的策略允许 {operation}。",
    "policy.lacks": "智能体的策略不允许 {operation}。",
    "policy.adds": "智能体的策略加入了 {thing}。",
    "policy.cuts": "智能体的策略不放行 {thing}。",
    "policy.state": "智能体的策略保存 {scope} 范围的状态。",
    "policy.no_state": "智能体的策略不保存 {scope} 范围的状态。",
    "policy.steers": "智能体的策略允许消息中途进入运行。",
    "policy.does_not_steer": "智能体的策略不允许消息中途进入运行。",
    "policy.conversation": "智能体的策略允许读取会话 {thing} 的历史。",
    "policy.no_conversation": "智能体的策略不允许读取会话 {thing} 的历史。",
    "configuration.selects": "配置的字段 {field} 选择了 {thing}。",
    "configuration.lacks": "配置和策略都没有要求 {thing}。",
    "names_nothing": "调用没有指明对象，而这个动作需要一个对象。",
    "workspace.offers": "工作区提供 {thing}。",
    "workspace.lacks": "工作区不提供 {thing}。",
    "workspace.absent": "工作区现在无法提供 {thing}：{why}",
    "workspace.unfit": "{thing} 做不了 {operation}。",
    "scope.has": "事件带有 {scope}。",
    "scope.lacks": "事件没有 {scope}。",
    "parent.lacks": "发起本次运行的运行没有 {operation}。",
    "parent.lacks_thing": "发起本次运行的运行没有 {thing}。",
    "parent.no_conversation": "发起本次运行的运行不能读取会话 {thing} 的历史。",
    "parent.depth": "智能体互相调用的层数到本次运行为止。",
    "revocation.none": "此后没有人收回它。",
    "revocation.took": "管理员在运行期间收回了它。",
}

WORDS: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {"en_US": MappingProxyType(_EN_US), "zh_Hans": MappingProxyType(_ZH_HANS)}
)
"""By language and key."""
LANGUAGES: Final = tuple(WORDS)
