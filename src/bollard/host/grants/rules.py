"""What each action of the run API needs of a grant: a family, an operation, and the thing its parameters name."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from bollard.protocol import ACTIONS, Strict

__all__ = ["RULES", "Rule", "things_named"]

_NAMES: Final[Mapping[str, str]] = {
    "models.invoke": "model_id",
    "models.stream": "model_id",
    "models.rerank": "model_id",
    "models.embed": "model_id",
    "tools.detail": "names",
    "tools.call": "name",
    "knowledge.retrieve": "kb_id",
    "history.page": "conversation_id",
    "events.get": "event_id",
    "artifacts.metadata": "artifact_id",
    "artifacts.read": "artifact_id",
    "artifacts.append": "upload_id",
    "artifacts.finish": "upload_id",
    "state.get": "scope",
    "state.set": "scope",
    "state.delete": "scope",
    "state.list": "scope",
    "storage.get": "area",
    "storage.set": "area",
    "storage.delete": "area",
    "storage.list": "area",
    "files.get": "file_id",
    "agents.call": "agent_id",
    "platform.request": "action",
}
"""By action, the parameter that names its thing. An action that is absent names none."""

_NAMED_IN_GRANT: Final = frozenset({"models", "tools", "knowledge_bases", "files", "agents", "platform"})
"""Families whose things a grant lists one by one. Events and artifacts it does not list: whoever answers such a call
looks them up within the run's scope, and what is outside looks absent there."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One row: what an action needs."""

    action: str
    family: str
    operation: str | None
    """`None` where the thing decides: a state scope, a storage area, the source of a file."""
    parameter: str | None
    listed: bool
    """Whether the thing must be listed in the grant."""


def _rule(action: str) -> Rule:
    permission = ACTIONS[action].permission
    family, operation = permission if permission is not None else (action.partition(".")[0], None)
    parameter = _NAMES.get(action)
    listed = parameter is not None and family in _NAMED_IN_GRANT
    return Rule(action=action, family=family, operation=operation, parameter=parameter, listed=listed)


RULES: Final[Mapping[str, Rule]] = MappingProxyType({action: _rule(action) for action in ACTIONS})


def things_named(action: str, params: Strict) -> tuple[str | None, ...]:
    """The things that a call names; `(None,)` where it names none."""
    parameter = RULES[action].parameter
    named: str | tuple[str, ...] | None = None if parameter is None else getattr(params, parameter)
    return named if isinstance(named, tuple) else (named,)
