"""Permissions of runs as sentences for people. A sentence is data: a key of a stable vocabulary, its fields, a pointer
to the part of the agent that makes it true, and the risk. Nothing here grants anything. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from bollard.host.actions.call_policy import reasons_to_ask
from bollard.host.agents.policies import ApprovalPolicy
from bollard.host.capabilities.capability import RISKS, Capability, Risk
from bollard.host.grants.access import GrantedResource, Rights
from bollard.host.texts import Locale, read_texts
from bollard.protocol import JsonObject

WORDS: Final = read_texts("permissions")
"""By language and key. Keys with a dot are words of sentences."""
_ACCESS: Final = "/policy/access"
_SPECIAL: Final = {"tool:builtin/http_fetch": "fetch", "tool:builtin/exec": "exec"}
"""Tools with a sentence of their own."""
_OPERATIONS: Final[tuple[tuple[str, str, str, Risk], ...]] = (
    ("artifacts", "read", "artifacts_read", "low"),
    ("artifacts", "write", "artifacts_write", "low"),
    ("events", "page", "events", "low"),
    ("storage", "plugin", "storage_plugin", "low"),
    ("storage", "workspace", "storage_workspace", "medium"),
    ("platform", "request", "platform", "high"),
)
"""Family, operation, key and risk of sentences without a resource."""
_LISTS: Final = (("knowledge_bases", "knowledge"), ("files", "files"), ("skills", "skills"))


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """One sentence."""

    key: str
    fields: Mapping[str, str | tuple[str, ...]] = {}
    policy: str
    """A JSON pointer into the body of the agent."""
    risk: Risk = "low"

    def to_wire(self, locale: Locale) -> JsonObject:
        fields: JsonObject = {
            name: value if isinstance(value, str) else [*value] for name, value in self.fields.items()
        }
        return {"key": self.key, "fields": fields, "policy": self.policy, "risk": self.risk, "text": self.text(locale)}

    def text(self, locale: Locale) -> str:
        words = WORDS[locale]
        return words[self.key].format_map(
            {
                name: value if isinstance(value, str) else _joined(name, value, words)
                for name, value in self.fields.items()
            }
        )


def _joined(name: str, values: Iterable[str], words: Mapping[str, str]) -> str:
    named = (words[f"scope.{value}"] for value in values) if name == "scopes" else values
    return words["and"].join(named)


def permissions_of(
    rights: Rights, approval: ApprovalPolicy, capabilities: Mapping[str, Capability]
) -> list[Permission]:
    """The sentences of an access. `capabilities` are those that the workspace offers, by id."""
    return [
        *_conversation(rights),
        *_models(rights),
        *_tools(rights, approval, capabilities),
        *_agents(rights, approval, capabilities),
        *_lists(rights),
        *_others(rights),
        *_sending(rights, capabilities),
    ]


def _conversation(rights: Rights) -> Iterator[Permission]:
    place = f"{_ACCESS}/permissions/history"
    yield Permission(key="history" if rights.operations.get("history") else "history_none", policy=place)
    if rights.conversations:
        names = tuple(sorted(rights.conversations))
        yield Permission(key="conversations", fields={"names": names}, policy=f"{_ACCESS}/conversations", risk="medium")


def _models(rights: Rights) -> Iterator[Permission]:
    held = rights.resources.get("models", {})
    if held:
        yield Permission(key="models", fields={"names": tuple(sorted(held))}, policy=_place("models", held))
    else:
        yield Permission(key="models_none", policy=f"{_ACCESS}/resources/models")


def _tools(rights: Rights, approval: ApprovalPolicy, capabilities: Mapping[str, Capability]) -> Iterator[Permission]:
    held = rights.resources.get("tools", {})
    for tool_id, tool in sorted(held.items()):
        capability = capabilities.get(tool_id)
        key = _SPECIAL.get(tool_id, "tool")
        if capability is not None and reasons_to_ask(capability, approval, flow=False):
            key = f"{key}_asked"
        yield Permission(
            key=key,
            fields={"name": tool.name or tool_id, "id": tool_id},
            policy=_place("tools", {tool_id: tool}),
            risk="low" if capability is None else capability.risk,
        )
    if not held:
        yield Permission(key="tools_none", policy=f"{_ACCESS}/resources/tools")


def _agents(rights: Rights, approval: ApprovalPolicy, capabilities: Mapping[str, Capability]) -> Iterator[Permission]:
    held = rights.resources.get("agents", {})
    asked: dict[str, list[str]] = {}
    for agent_id in sorted(held):
        capability = capabilities.get(f"agent:{agent_id}")
        asks = capability is not None and reasons_to_ask(capability, approval, flow=False)
        asked.setdefault("agents_asked" if asks else "agents", []).append(agent_id)
    for key, names in sorted(asked.items()):
        risks = [capability.risk for name in names if (capability := capabilities.get(f"agent:{name}")) is not None]
        risk = RISKS[max((RISKS.index(each) for each in risks), default=0)]
        yield Permission(key=key, fields={"names": tuple(names)}, policy=f"{_ACCESS}/resources/agents", risk=risk)


def _lists(rights: Rights) -> Iterator[Permission]:
    for kind, key in _LISTS:
        if held := rights.resources.get(kind, {}):
            yield Permission(key=key, fields={"names": tuple(sorted(held))}, policy=_place(kind, held))


def _others(rights: Rights) -> Iterator[Permission]:
    for family, operation, key, risk in _OPERATIONS:
        if operation in rights.operations.get(family, ()):
            yield Permission(key=key, policy=f"{_ACCESS}/permissions/{family}", risk=risk)
    if rights.state_scopes:
        yield Permission(key="state", fields={"scopes": tuple(sorted(rights.state_scopes))}, policy="/policy/state")
    if rights.steering:
        yield Permission(key="steering", policy="/policy/concurrency")


def _sending(rights: Rights, capabilities: Mapping[str, Capability]) -> Iterator[Permission]:
    """Says that nothing leaves, if no granted tool sends data out."""
    tools = (capabilities.get(tool_id) for tool_id in rights.resources.get("tools", {}))
    sends = any(each is None or each.flow.sends_out for each in tools)
    if not sends and not rights.operations.get("platform"):
        yield Permission(key="sends_none", policy=f"{_ACCESS}/resources/tools")


def _place(kind: str, held: Mapping[str, GrantedResource]) -> str:
    """The field of the configuration that selects these resources, if there is one, or else the policy."""
    fields = {field for resource in held.values() for field in resource.fields}
    added = any(resource.added for resource in held.values())
    return f"/config/{min(fields)}" if fields and not added else f"{_ACCESS}/resources/{kind}"
