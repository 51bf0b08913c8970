"""What an operator took away from a live run. It only grows: nothing gives a right back to a run."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from bollard.host.errors import InvalidRequest
from bollard.host.grants.grant import Grant
from bollard.protocol import JsonObject

AGENT_TOOL: Final = "agent:"
"""How the id of a tool begins that is an agent."""


class _Data(msgspec.Struct, frozen=True, kw_only=True):
    """As `grant.revoked` has it."""

    operations: frozenset[str] = frozenset()
    resources: dict[str, frozenset[str]] = {}
    all: bool = False


class Revocation(msgspec.Struct, frozen=True, kw_only=True):
    """Operations as `family.operation`, things by kind, or everything. `revoke` makes one."""

    operations: frozenset[str] = frozenset()
    resources: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict[str, frozenset[str]])
    all: bool = False

    def takes(self, operation: str, kind: str, thing: str | None) -> bool:
        """Whether this operation on this thing was taken away."""
        if self.all or operation in self.operations:
            return True
        return thing is not None and kind in self.resources and thing in self.resources[kind]

    def joined(self, other: "Revocation") -> "Revocation":
        """What either of the two took away."""
        kinds = sorted({*self.resources, *other.resources})
        none: frozenset[str] = frozenset()
        return Revocation(
            operations=self.operations | other.operations,
            resources={kind: self.resources.get(kind, none) | other.resources.get(kind, none) for kind in kinds},
            all=self.all or other.all,
        )

    def data(self) -> JsonObject:
        """The data of a `grant.revoked` record, but for who did it."""
        found: JsonObject = {}
        if self.operations:
            found["operations"] = [*sorted(self.operations)]
        if self.resources:
            found["resources"] = {kind: [*sorted(things)] for kind, things in sorted(self.resources.items())}
        if self.all:
            found["all"] = True
        return found

    @staticmethod
    def from_data(data: JsonObject) -> "Revocation":
        """What a `grant.revoked` record took away."""
        try:
            body = msgspec.convert(data, _Data)
        except msgspec.ValidationError as error:
            raise InvalidRequest(
                f"this is not the data of a revocation: {error}", hint="read it from a grant.revoked record"
            ) from error
        return Revocation(operations=body.operations, resources=body.resources, all=body.all)


NOTHING_REVOKED: Final = Revocation()


def granted_operations(grant: Grant) -> frozenset[str]:
    """Every operation of the grant by its full name."""
    rights = grant.access.rights
    names = {f"{family}.{name}" for family, operations in rights.operations.items() for name in operations}
    names |= {f"state.{scope}" for scope in grant.state_keys}
    return frozenset(names | {"steering.pull"} if grant.steerable else names)


def granted_things(grant: Grant, kind: str) -> frozenset[str]:
    """Every thing of one kind in the grant; `conversations` is a kind here."""
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
    """What is revoked now: all that was, and this. Taking away what was never granted is a mistake and is refused."""
    asked = Revocation(
        operations=frozenset(operations),
        resources={kind: frozenset(things) for kind, things in (resources or {}).items() if things},
        all=everything,
    )
    if asked == NOTHING_REVOKED:
        raise InvalidRequest("nothing is named to be revoked", hint="name operations, resources, or everything")
    _refuse_ungranted(grant, "operations", asked.operations, granted_operations(grant))
    for kind, things in asked.resources.items():
        _refuse_ungranted(grant, f"resources.{kind}", things, granted_things(grant, kind))
    return before.joined(asked).joined(_by_other_names(grant, asked))


def _by_other_names(grant: Grant, asked: Revocation) -> Revocation:
    """An agent may be among the tools of a run too. It is one thing: taken by one name, it is taken by the other."""
    none: frozenset[str] = frozenset()
    called = {
        name for name, held in grant.access.rights.resources.get("tools", {}).items() if "call" in held.operations
    }
    tools = {name.removeprefix(AGENT_TOOL) for name in called if name.startswith(AGENT_TOOL)}
    named = {name.removeprefix(AGENT_TOOL) for name in asked.resources.get("tools", none)}
    as_tools = tools if "agents.call" in asked.operations else tools & asked.resources.get("agents", none)
    as_agents = granted_things(grant, "agents") & tools & (tools if "tools.call" in asked.operations else named)
    found = {"agents": as_agents, "tools": frozenset(f"{AGENT_TOOL}{name}" for name in as_tools)}
    return Revocation(resources={kind: things for kind, things in found.items() if things})


def handed_down(grant: Grant, before: Revocation, above: Revocation) -> Revocation:
    """What is revoked from a child run now: all that was, and what was taken from the run that called it."""
    resources = {kind: things & granted_things(grant, kind) for kind, things in above.resources.items()}
    return before.joined(
        Revocation(
            operations=above.operations & granted_operations(grant),
            resources={kind: things for kind, things in resources.items() if things},
            all=above.all,
        )
    )


def _refuse_ungranted(grant: Grant, where: str, asked: frozenset[str], granted: frozenset[str]) -> None:
    never = sorted(asked - granted)
    if never:
        raise InvalidRequest(
            f"run {grant.run_id} was never granted {', '.join(never)}",
            hint=f"granted are: {', '.join(sorted(granted)) or 'none'}",
            field=where,
        )
