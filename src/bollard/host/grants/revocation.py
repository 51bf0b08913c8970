"""Revocation of rights from a live run. It only grows: a run never gets a right back."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from bollard.host.errors import InvalidRequest, caused_by
from bollard.host.grants.grant import Grant
from bollard.protocol import JsonObject

AGENT_TOOL: Final = "agent:"
"""The prefix of the id of an agent among the tools."""


class _Data(msgspec.Struct, frozen=True, kw_only=True):
    """The data of a `grant.revoked` record."""

    operations: frozenset[str] = frozenset()
    resources: dict[str, frozenset[str]] = {}
    all: bool = False


class Revocation(msgspec.Struct, frozen=True, kw_only=True):
    """Revoked operations as `family.operation`, resources by kind, or everything. Made by `revoke`."""

    operations: frozenset[str] = frozenset()
    resources: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict[str, frozenset[str]])
    all: bool = False

    def takes(self, operation: str, kind: str, thing: str | None) -> bool:
        """Whether this operation on this resource is revoked."""
        if self.all or operation in self.operations:
            return True
        return thing is not None and kind in self.resources and thing in self.resources[kind]

    def joined(self, other: "Revocation") -> "Revocation":
        """The union of both."""
        kinds = sorted({*self.resources, *other.resources})
        none: frozenset[str] = frozenset()
        return Revocation(
            operations=self.operations | other.operations,
            resources={kind: self.resources.get(kind, none) | other.resources.get(kind, none) for kind in kinds},
            all=self.all or other.all,
        )

    def data(self) -> JsonObject:
        """The data of a `grant.revoked` record, without its author."""
        body: JsonObject = {}
        if self.operations:
            body["operations"] = [*sorted(self.operations)]
        if self.resources:
            body["resources"] = {kind: [*sorted(things)] for kind, things in sorted(self.resources.items())}
        if self.all:
            body["all"] = True
        return body

    @staticmethod
    def from_data(data: JsonObject) -> "Revocation":
        """Decode the data of a `grant.revoked` record."""
        try:
            body = msgspec.convert(data, _Data)
        except msgspec.ValidationError as error:
            raise InvalidRequest(
                f"the revocation cannot be decoded: {error}",
                reason="revocation_unreadable",
                hint="use the data of a grant.revoked record",
                **caused_by(error),
            ) from error
        return Revocation(operations=body.operations, resources=body.resources, all=body.all)


NOTHING_REVOKED: Final = Revocation()


def granted_operations(grant: Grant) -> frozenset[str]:
    """The full names of all granted operations."""
    rights = grant.access.rights
    names = {f"{family}.{name}" for family, operations in rights.operations.items() for name in operations}
    names |= {f"state.{scope}" for scope in grant.state_keys}
    return frozenset(names | {"steering.pull"} if grant.steerable else names)


def granted_things(grant: Grant, kind: str) -> frozenset[str]:
    """All granted resources of one kind; `conversations` is a kind here."""
    rights = grant.access.rights
    if kind == "conversations":
        return rights.conversations
    return frozenset(name for each, held in rights.resources.items() if each == kind for name in held)


def revoke(
    grant: Grant,
    before: Revocation,
    *,
    operations: Iterable[str] = (),
    resources: Mapping[str, Iterable[str]] | None = None,
    everything: bool = False,
) -> Revocation:
    """Add to a revocation. Raises `InvalidRequest` for anything that the grant does not have."""
    added = Revocation(
        operations=frozenset(operations),
        resources={kind: frozenset(things) for kind, things in (resources or {}).items() if things},
        all=everything,
    )
    if added == NOTHING_REVOKED:
        raise InvalidRequest(
            "the request names nothing to revoke",
            reason="nothing_to_revoke",
            hint="name operations, resources, or everything",
        )
    _refuse_ungranted(grant, "operations", added.operations, granted_operations(grant))
    for kind, things in added.resources.items():
        _refuse_ungranted(grant, f"resources.{kind}", things, granted_things(grant, kind))
    return before.joined(added).joined(_under_other_names(grant, added))


def _under_other_names(grant: Grant, added: Revocation) -> Revocation:
    """The revocation of agents under their other name: an agent may also be among the tools of a run."""
    none: frozenset[str] = frozenset()
    called = {
        name for name, held in grant.access.rights.resources.get("tools", {}).items() if "call" in held.operations
    }
    tools = {name.removeprefix(AGENT_TOOL) for name in called if name.startswith(AGENT_TOOL)}
    named = {name.removeprefix(AGENT_TOOL) for name in added.resources.get("tools", none)}
    as_tools = tools if "agents.call" in added.operations else tools & added.resources.get("agents", none)
    as_agents = granted_things(grant, "agents") & tools & (tools if "tools.call" in added.operations else named)
    others = {"agents": as_agents, "tools": frozenset(f"{AGENT_TOOL}{name}" for name in as_tools)}
    return Revocation(resources={kind: things for kind, things in others.items() if things})


def handed_down(grant: Grant, before: Revocation, above: Revocation) -> Revocation:
    """The revocation of a child run: its own, and that of its parent."""
    resources = {kind: things & granted_things(grant, kind) for kind, things in above.resources.items()}
    return before.joined(
        Revocation(
            operations=above.operations & granted_operations(grant),
            resources={kind: things for kind, things in resources.items() if things},
            all=above.all,
        )
    )


def _refuse_ungranted(grant: Grant, where: str, requested: frozenset[str], granted: frozenset[str]) -> None:
    if missing := ", ".join(sorted(requested - granted)):
        names = ", ".join(sorted(granted)) or "none"
        raise InvalidRequest(
            f"run {grant.run_id} was never granted {missing}",
            reason="never_granted",
            hint=f"granted are: {names}",
            field=where,
            run_id=grant.run_id,
            missing=missing,
            granted=names,
        )
