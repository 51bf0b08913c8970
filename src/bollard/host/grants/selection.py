"""What an agent asks for by name: the selector fields of its configuration, and what its policy adds.

A configuration holds no value of a field that its form hides, so nothing hidden asks for anything.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from bollard.host.agents.agent import Agent
from bollard.host.grants.offer import KINDS, Kind
from bollard.protocol import NOTHING_SELECTED, JsonValue

__all__ = ["Asked", "asked_for"]

_KIND_OF: Final[dict[str, Kind]] = {
    "llm-model-selector": "models",
    "model-fallback-selector": "models",
    "rerank-model-selector": "models",
    "embedding-model-selector": "models",
    "knowledge-base-multi-selector": "knowledge_bases",
    "tool-multi-selector": "tools",
    "file": "files",
    "array[file]": "files",
}
"""The selector types by what they select. `outpost-selector` selects a machine, which is no resource of a grant."""


class Asked(msgspec.Struct, frozen=True):
    """Who asks for one thing: fields of the configuration, the policy, or both."""

    fields: tuple[str, ...] = ()
    added: bool = False


def asked_for(agent: Agent) -> dict[Kind, dict[str, Asked]]:
    """By kind and id, whether or not it exists."""
    asked: dict[Kind, dict[str, Asked]] = {kind: {} for kind in KINDS}
    for item in agent.form:
        kind = _KIND_OF.get(item.type)
        if kind is None:
            continue
        for name in dict.fromkeys(_chosen(agent.config.get(item.name))):
            before = asked[kind].get(name, Asked())
            asked[kind][name] = Asked((*before.fields, item.name))
    for kind, rule in agent.policy.access.resources.items():
        for name in rule.add:
            asked[kind][name] = Asked(asked[kind].get(name, Asked()).fields, added=True)
    return asked


def _chosen(value: JsonValue) -> Iterator[str]:
    """The ids in a selector's value. A value of any other shape selects nothing."""
    if isinstance(value, str):
        if value not in NOTHING_SELECTED:
            yield value
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, str):
                yield from _chosen(item)
    elif isinstance(value, dict):
        yield from _chosen(value.get("primary"))
        fallbacks = value.get("fallbacks")
        if isinstance(fallbacks, list):
            yield from _chosen(fallbacks)
