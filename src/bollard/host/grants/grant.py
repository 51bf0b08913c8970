"""The grant of one run: an agent's access, the scope of one event, and limits. Frozen and content-addressed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import msgspec

from bollard.host.agents.agent import Agent
from bollard.host.errors import InvalidRequest, caused_by
from bollard.host.grants.access import Access, Rights, seal
from bollard.host.log.records import owned_scope_key, owner_of
from bollard.host.scope import Scope
from bollard.protocol import JsonObject, StateScope, limits
from bollard.trust import NotCanonical, canonical_json, sha256_of

_encode: Final = msgspec.json.Encoder().encode


class GrantLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a run."""

    deadline_s: float = limits.RUN_DEADLINE_S
    idle_s: float = limits.RUN_IDLE_S
    calls_per_s: int = limits.CALLS_PER_S
    calls_in_flight: int = limits.CALLS_IN_FLIGHT
    calls_per_run: int | None = None
    """`None`: no limit of the agent."""
    run_output_mib: int | None = None
    """MiB that the run may record. `None`: no limit of the agent."""
    payload_bytes: int = limits.CALL_BYTES


class GrantParent(msgspec.Struct, frozen=True, kw_only=True):
    """The parent run. The children of a run without a parent have depth 1."""

    run_id: str
    grant_sha256: str
    depth: int


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    """The JSON of a grant."""

    access: Rights
    graph_sha256: str | None
    limits: GrantLimits
    parent: GrantParent | None
    run_id: str
    scope: Scope
    state_keys: Mapping[StateScope, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The rights of one run. It never changes; a `Revocation` beside it narrows it."""

    run_id: str
    access: Access
    scope: Scope
    state_keys: Mapping[StateScope, str]
    """The keys of the state that this run may use, by scope."""
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
        """Whether the run accepts steering messages: runner and policy allow it, and there is a conversation."""
        return self.access.rights.steering and self.scope.has("conversation")

    @staticmethod
    def from_json(text: bytes) -> "Grant":
        """Decode a stored grant. Its bytes and its digest stay as they were stored."""
        try:
            body = msgspec.json.decode(text, type=_Body)
            access = seal(body.access)
        except (msgspec.MsgspecError, UnicodeDecodeError, NotCanonical) as error:
            raise InvalidRequest(
                f"the grant cannot be decoded: {error}",
                reason="grant_unreadable",
                hint="use the data of a grant.issued record",
                **caused_by(error),
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
    """The limits from an agent's settings."""
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
    scope: Scope,
    limits: GrantLimits,
    graph_sha256: str | None = None,
    parent: GrantParent | None = None,
) -> Grant:
    """Issue the grant of a run. Cheap: `access` has everything that does not differ between runs."""
    state_keys = _state_keys(access.rights, scope)
    # Canonical JSON, joined from parts in the order of their keys.
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


def _state_keys(rights: Rights, scope: Scope) -> dict[StateScope, str]:
    """The state key of each scope that the policy allows and the event has. The log uses the same `scope_key`."""
    return {
        each: owned_scope_key(scope.workspace, each, owner_of(scope, rights.agent_id, rights.runner_id, each))
        for each in sorted(rights.state_scopes)
        if scope.has(each)
    }


# --- the runner's view ---


def resources_of(grant: Grant) -> JsonObject:
    """`ctx.resources`. Shared by every run of the agent, never changed."""
    return grant.access.resources


def available_apis_of(grant: Grant) -> JsonObject:
    """`ctx.context.available_apis`: the calls that are available for this event."""
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
