"""The grant of one run: an agent's access, the scope of one event, and limits. Frozen and content-addressed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import msgspec

from bollard.host.agents.agent import Agent
from bollard.host.errors import InvalidRequest
from bollard.host.grants.access import Access, Rights, seal
from bollard.host.log.records import RunFacts, scope_key
from bollard.protocol import JsonObject, StateScope, limits
from bollard.trust import NotCanonical, canonical_json, sha256_of

_encode: Final = msgspec.json.Encoder().encode


class GrantScope(msgspec.Struct, frozen=True, kw_only=True):
    """Where the event happened, who caused it and what it is about. In the order of canonical JSON."""

    actor_id: str | None = None
    actor_type: str | None = None
    bot: str | None = None
    conversation: str | None = None
    subject_id: str | None = None
    subject_type: str | None = None
    thread: str | None = None
    workspace: str

    def has(self, scope: StateScope) -> bool:
        """Whether the event has what the scope is named for. A type without an id would be shared by all of it."""
        if scope == "conversation":
            return bool(self.conversation)
        if scope == "actor":
            return bool(self.actor_type and self.actor_id)
        if scope == "subject":
            return bool(self.subject_type and self.subject_id)
        return True


class GrantLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long and how much."""

    deadline_s: float = limits.RUN_DEADLINE_S
    idle_s: float = limits.RUN_IDLE_S
    calls_per_s: int = limits.CALLS_PER_S
    calls_in_flight: int = limits.CALLS_IN_FLIGHT
    calls_per_run: int | None = None
    """`None` is no limit of the agent's own."""
    run_output_mib: int | None = None
    """MiB that the run may record; `None` is no limit of the agent's own."""
    payload_bytes: int = limits.CALL_BYTES


class GrantParent(msgspec.Struct, frozen=True, kw_only=True):
    """The run that called for this one. The children of a run that nobody called have depth 1."""

    run_id: str
    grant_sha256: str
    depth: int


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    """A grant as its JSON has it."""

    access: Rights
    graph_sha256: str | None
    limits: GrantLimits
    parent: GrantParent | None
    run_id: str
    scope: GrantScope
    state_keys: Mapping[StateScope, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What one run may do. Nothing widens it; a `Revocation` beside it narrows it."""

    run_id: str
    access: Access
    scope: GrantScope
    state_keys: Mapping[StateScope, str]
    """The state this run may use: by scope, whose it is."""
    limits: GrantLimits
    graph_sha256: str | None = None
    parent: GrantParent | None = None
    json: bytes = field(repr=False)
    sha256: str

    @property
    def depth(self) -> int:
        return 0 if self.parent is None else self.parent.depth

    @property
    def steerable(self) -> bool:
        """Whether messages can be put into the run: agreed to by runner and policy, and there is a conversation."""
        return self.access.rights.steering and self.scope.has("conversation")

    @staticmethod
    def from_json(text: bytes) -> "Grant":
        """A grant read back. Its bytes stay as they were stored, and so does its digest."""
        try:
            body = msgspec.json.decode(text, type=_Body)
            access = seal(body.access)
        except (msgspec.MsgspecError, UnicodeDecodeError, NotCanonical) as error:
            raise InvalidRequest(
                f"these bytes are not a grant: {error}", hint="read them from a grant.issued record"
            ) from error
        return Grant(
            run_id=body.run_id,
            access=access,
            scope=body.scope,
            state_keys=body.state_keys,
            limits=body.limits,
            graph_sha256=body.graph_sha256,
            parent=body.parent,
            json=text,
            sha256=sha256_of(text),
        )


def limits_of(agent: Agent) -> GrantLimits:
    """The limits that an agent's own settings make."""
    return GrantLimits(
        deadline_s=agent.deadline_s,
        idle_s=agent.idle_s,
        calls_per_run=agent.policy.budget.calls_per_run,
        run_output_mib=agent.policy.budget.run_output_mib,
    )


@lru_cache(maxsize=256)
def _limits_json(limits: GrantLimits) -> bytes:
    return canonical_json(msgspec.to_builtins(limits))


def issue_grant(
    *,
    run_id: str,
    access: Access,
    scope: GrantScope,
    limits: GrantLimits,
    graph_sha256: str | None = None,
    parent: GrantParent | None = None,
) -> Grant:
    """What this run may do. Costs little: everything that does not differ from run to run is in `access` already."""
    state_keys = _state_keys(access.rights, run_id, scope)
    # Canonical JSON sorts keys. Everything here is text, or made once and kept, so that it can be joined as it is.
    text = b'{"access":%b,"graph_sha256":%b,"limits":%b,"parent":%b,"run_id":%b,"scope":%b,"state_keys":%b}' % (
        access.json,
        _encode(graph_sha256),
        _limits_json(limits),
        canonical_json(msgspec.to_builtins(parent)) if parent is not None else b"null",
        _encode(run_id),
        _encode(scope),
        _encode(state_keys),
    )
    return Grant(
        run_id=run_id,
        access=access,
        scope=scope,
        state_keys=state_keys,
        limits=limits,
        graph_sha256=graph_sha256,
        parent=parent,
        json=text,
        sha256=sha256_of(text),
    )


def _state_keys(rights: Rights, run_id: str, scope: GrantScope) -> dict[StateScope, str]:
    """By scope that policy allows and the event has. The log names state by the same function."""
    facts = RunFacts(
        run_id=run_id,
        workspace=scope.workspace,
        event_id="",
        agent_id=rights.agent_id,
        binding_id="",
        runner_id=rights.runner_id,
        grant_sha256="",
        bot=scope.bot,
        conversation=scope.conversation,
        thread=scope.thread,
        actor_type=scope.actor_type,
        actor_id=scope.actor_id,
        subject_type=scope.subject_type,
        subject_id=scope.subject_id,
    )
    return {each: scope_key(facts, each) for each in sorted(rights.state_scopes) if scope.has(each)}


# What the runner sees of its grant. Made from the grant that the host checks with, so the two cannot differ.


def resources_of(grant: Grant) -> JsonObject:
    """`ctx.resources`. Shared by every run of the agent: it is sent, never changed."""
    return grant.access.resources


def available_apis_of(grant: Grant) -> JsonObject:
    """`ctx.context.available_apis`: which calls can be answered at all for this event."""
    operations = grant.access.rights.operations
    none: frozenset[str] = frozenset()
    history = operations.get("history", none)
    events = operations.get("events", none)
    artifacts = operations.get("artifacts", none)
    here = grant.scope.has("conversation")
    return {
        "history_page": "page" in history and (here or bool(grant.access.rights.conversations)),
        "history_search": "search" in history and here,
        "event_get": "get" in events,
        "event_page": "page" in events,
        "artifact_metadata": "metadata" in artifacts,
        "artifact_read": "read" in artifacts,
        "artifact_write": "write" in artifacts,
        "state": bool(grant.state_keys),
        "storage": "storage" in operations,
        "steering_pull": grant.steerable,
    }
