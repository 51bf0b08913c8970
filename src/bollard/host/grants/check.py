"""Authorization of run API calls, from the grant of the run and its revocation.

Nothing is looked up, and the time does not depend on the size of the grant. A resource that is absent, foreign or not
granted gets the same answer, byte for byte, without its id (§7).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from bollard.host.agents.policies import OPERATIONS
from bollard.host.grants.grant import Grant
from bollard.host.grants.offer import base_of, file_as_listed
from bollard.host.grants.revocation import Revocation
from bollard.protocol import ACTIONS, ErrorCode, Strict

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
"""By action, the parameter that names its resource. Other actions name none."""

_NAMED_IN_GRANT: Final = frozenset({"models", "tools", "knowledge_bases", "files", "agents", "platform"})
"""Families whose resources a grant lists. Events and artifacts are not listed: their handlers look them up within the
run's scope, where others are absent."""


class ActionRule(msgspec.Struct, frozen=True, kw_only=True):
    """The requirements of one action."""

    action: str
    family: str
    operation: str | None
    """`None` if the resource decides: a state scope, a storage area, the source of a file."""
    parameter: str | None
    listed: bool
    """Whether the resource must be listed in the grant."""


def _rule(action: str) -> ActionRule:
    permission = ACTIONS[action].permission
    family, operation = permission if permission is not None else (action.partition(".")[0], None)
    parameter = _NAMES.get(action)
    listed = parameter is not None and family in _NAMED_IN_GRANT
    return ActionRule(action=action, family=family, operation=operation, parameter=parameter, listed=listed)


RULES: Final[Mapping[str, ActionRule]] = MappingProxyType({action: _rule(action) for action in ACTIONS})


def things_named(action: str, params: Strict) -> tuple[str | None, ...]:
    """The resources that a call names; `(None,)` if it names none."""
    parameter = RULES[action].parameter
    named: str | tuple[str, ...] | None = None if parameter is None else getattr(params, parameter)
    return named if isinstance(named, tuple) else (named,)


class Allowed(msgspec.Struct, frozen=True):
    """The call is allowed."""


class Denied(msgspec.Struct, frozen=True):
    """The call is denied. The code is for programs, the sentence for people."""

    code: ErrorCode
    sentence: str
    hint: str = ""


ALLOWED: Final = Allowed()
NO_SUCH_ACTION: Final = Denied("unauthorized", "the run API has no such action")
REVOKED: Final = Denied(
    "revoked", "an operator revoked this from the run", "end the run; another one may have it again"
)

_EXPLAIN: Final = "`bollard runs explain RUN` says why"
_GRANT: Final = (
    "request {} in the permissions of the runner, and permit it in policy.access.permissions of the agent; " + _EXPLAIN
)
_STATE: Final = "add the scope to policy.state.scopes of the agent, and set policy.state.enabled"
_SELECT: Final = "select it in the configuration of the agent, or add it to policy.access.resources; " + _EXPLAIN

_THINGS: Final[Mapping[str, str]] = {
    "models": "model",
    "tools": "tool",
    "knowledge_bases": "knowledge base",
    "files": "file",
    "agents": "agent",
    "platform": "platform action",
    "history": "conversation",
    "state": "state scope",
}
_MISSING_HINTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(_NAMED_IN_GRANT - {"platform"}, _SELECT),
    "history": "add the conversation to policy.access.conversations of the agent",
    "state": "the event of this run has no such scope; use the scope runner, or check ctx before",
}
NOT_FOUND: Final[Mapping[str, Denied]] = {
    family: Denied("not_found", f"this run has no such {thing}", _MISSING_HINTS.get(family, _EXPLAIN))
    for family, thing in _THINGS.items()
}
_FAMILY_HINTS: Final[Mapping[str, str]] = {
    "state": _STATE,
    "steering": "declare the capability steering of the runner, and set policy.concurrency.mode of the agent to steer",
}
UNAUTHORIZED: Final[Mapping[str, Denied]] = {
    family: Denied(
        "unauthorized", f"{family} is not granted to this run", _FAMILY_HINTS.get(family, _GRANT.format(family))
    )
    for family in (*OPERATIONS, "state", "steering")
}
CAPABILITY_DENIED: Final[Mapping[str, Mapping[str, Denied]]] = {
    family: {
        name: Denied(
            "capability_denied",
            f"{family} is granted to this run, but not {family}.{name}",
            _GRANT.format(f"{family}.{name}"),
        )
        for name in names
    }
    for family, names in OPERATIONS.items()
}
NOT_THIS_SCOPE: Final = Denied("capability_denied", "the agent's state policy does not include this scope", _STATE)
NOT_THIS_AREA: Final = Denied(
    "capability_denied", "storage is granted to this run, but not this area", _GRANT.format("storage with this area")
)
NOT_THIS_FILE: Final = Denied(
    "capability_denied",
    "files are granted to this run, but not from this source",
    _GRANT.format("files with this source"),
)


def check(grant: Grant, revoked: Revocation, action: str, thing: str | None = None) -> Allowed | Denied:
    """Whether the run may use this action on this resource (a model, a tool, a conversation, a state scope, a storage
    area …). A tool is named by its id or its short name."""
    rule = RULES.get(action)
    if rule is None:
        return NO_SUCH_ACTION
    if rule.family == "host":  # the host's version and limits are public
        return ALLOWED
    if rule.parameter is None:  # the action has no resource
        thing = None
    if rule.family == "tools" and thing is not None:
        thing = grant.access.tool_ids.get(thing, thing)
    if rule.family == "files" and thing is not None:
        thing = file_as_listed(thing)
    operation = _operation(grant, rule, thing)
    if isinstance(operation, Denied):
        return operation
    return REVOKED if _is_revoked(grant, revoked, rule, operation, thing) else ALLOWED


def check_call(grant: Grant, revoked: Revocation, action: str, params: Strict) -> Allowed | Denied:
    """Whether a call is allowed for every resource that it names."""
    for thing in things_named(action, params):
        answer = check(grant, revoked, action, thing)
        if isinstance(answer, Denied):
            return answer
    return ALLOWED


def whole_conversation(grant: Grant, revoked: Revocation, conversation: str) -> bool:
    """Whether the history of a conversation may be read beyond the run's own thread."""
    return conversation in grant.access.rights.conversations and not revoked.takes(
        "history.page", "conversations", conversation
    )


def _operation(grant: Grant, rule: ActionRule, thing: str | None) -> Denied | str:
    """The granted operation, by its name inside the family, or the denial."""
    if rule.family == "state":
        return _state(grant, thing)
    if rule.family == "steering":
        return "pull" if grant.steerable else UNAUTHORIZED["steering"]
    operations = grant.access.rights.operations.get(rule.family)
    if not operations:
        return UNAUTHORIZED[rule.family]
    if rule.listed:
        return _listed(grant, rule, thing)
    if rule.family == "storage":
        return thing if thing is not None and thing in operations else NOT_THIS_AREA
    if rule.operation is None:  # an action whose resource decides and that this function does not know
        return UNAUTHORIZED[rule.family]
    if rule.operation not in operations:
        return CAPABILITY_DENIED[rule.family][rule.operation]
    if rule.family == "history" and not _readable(grant, thing):
        return NOT_FOUND["history"]
    return rule.operation


def _state(grant: Grant, scope: str | None) -> Denied | str:
    if not grant.state_keys:
        return UNAUTHORIZED["state"]
    if scope is not None and scope in grant.state_keys:
        return scope
    # The policy has the scope, but the event has no such conversation, actor or subject.
    return NOT_FOUND["state"] if scope in grant.access.rights.state_scopes else NOT_THIS_SCOPE


def _listed(grant: Grant, rule: ActionRule, thing: str | None) -> Denied | str:
    listed = grant.access.rights.resources.get(rule.family)
    resource = None if listed is None or thing is None else listed.get(thing)
    if resource is None:
        return NOT_FOUND[rule.family]
    if rule.operation is None:
        return next(iter(resource.operations), NOT_THIS_FILE)
    return rule.operation if rule.operation in resource.operations else CAPABILITY_DENIED[rule.family][rule.operation]


def _readable(grant: Grant, conversation: str | None) -> bool:
    """Whether it is the run's own conversation, or one that the policy names."""
    if conversation is None or conversation == grant.scope.conversation:
        return grant.scope.has("conversation")
    return conversation in grant.access.rights.conversations


def _is_revoked(grant: Grant, revoked: Revocation, rule: ActionRule, operation: str, thing: str | None) -> bool:
    if rule.family == "history":
        own = thing is None or thing == grant.scope.conversation
        return revoked.takes(f"history.{operation}", "conversations", None if own else thing)
    base = None if rule.family != "files" or thing is None else base_of(thing)
    if base is not None and revoked.takes("knowledge_bases.retrieve", "knowledge_bases", base):
        return True  # revoking a base revokes its documents
    return revoked.takes(f"{rule.family}.{operation}", rule.family, thing)
