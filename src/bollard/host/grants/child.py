"""The grants of child runs: the intersection of the child agent's access and the parent's current rights."""

from collections.abc import Callable

import msgspec

from bollard.host.capabilities.graph import CapabilityGraph
from bollard.host.errors import InvalidRequest
from bollard.host.grants.access import Access, GrantedResource, Rights, Withheld, seal
from bollard.host.grants.grant import Grant, GrantLimits, GrantParent, issue_grant
from bollard.host.grants.offer import base_of
from bollard.host.grants.revocation import AGENT_TOOL, Revocation
from bollard.host.scope import Scope
from bollard.protocol import limits


def narrow(child_access: Access, parent_grant: Grant, parent_revocation: Revocation) -> Access:
    """The part of the child agent's access that its parent has, without what was revoked from the parent."""
    child, parent = child_access.rights, parent_grant.access.rights
    operations, withheld = _operations(child, parent_grant, parent_revocation)
    resources: dict[str, dict[str, GrantedResource]] = {}
    missing: dict[str, dict[str, Withheld]] = {kind: dict(things) for kind, things in child.withheld_resources.items()}
    for kind, things in child.resources.items():
        for name, resource in things.items():
            above = parent.resources.get(kind, {}).get(name)
            left = None if above is None else _narrowed(resource, above, kind, name, operations, parent_revocation)
            if left is None:
                missing.setdefault(kind, {})[name] = "parent"
            else:
                resources.setdefault(kind, {})[name] = left
    if _is_deepest(parent_grant):
        for name in [name for name in resources.get("tools", {}) if name.startswith(AGENT_TOOL)]:
            del resources["tools"][name]
            missing.setdefault("tools", {})[name] = "depth"
    for name in _without_base(resources):
        del resources["files"][name]
        missing.setdefault("files", {})[name] = "parent"
    scopes = frozenset(
        scope
        for scope in child.state_scopes
        if scope in parent_grant.state_keys and not parent_revocation.takes(f"state.{scope}", "state", None)
    )
    withheld |= {f"state.{scope}": "parent" for scope in child.state_scopes - scopes}
    conversations = frozenset(
        each
        for each in child.conversations & parent.conversations
        if not parent_revocation.takes("history.page", "conversations", each)
    )
    if lost := child.conversations - conversations:
        missing.setdefault("conversations", {}).update(dict.fromkeys(lost, "parent"))
    steering = (
        child.steering and parent_grant.steerable and not parent_revocation.takes("steering.pull", "steering", None)
    )
    if child.steering and not steering:
        withheld["steering.pull"] = "parent"
    return seal(
        msgspec.structs.replace(
            child,
            operations=operations,
            resources=resources,
            conversations=conversations,
            state_scopes=scopes,
            steering=steering,
            withheld_operations=withheld,
            withheld_resources=missing,
        )
    )


def _operations(
    child: Rights, parent_grant: Grant, revoked: Revocation
) -> tuple[dict[str, frozenset[str]], dict[str, Withheld]]:
    operations: dict[str, frozenset[str]] = {}
    withheld = dict(child.withheld_operations)
    deepest = _is_deepest(parent_grant)
    for family, names in child.operations.items():
        above = parent_grant.access.rights.operations.get(family, frozenset[str]())
        left = frozenset(name for name in names & above if not revoked.takes(f"{family}.{name}", family, None))
        withheld |= {f"{family}.{name}": "parent" for name in names - left}
        if family == "agents" and deepest:
            withheld |= {f"{family}.{name}": "depth" for name in left}
        elif left:
            operations[family] = left
    return operations, withheld


def _is_deepest(parent_grant: Grant) -> bool:
    """Whether children of this run may not call agents, under any name."""
    return parent_grant.depth + 1 >= limits.CHILD_RUN_DEPTH


def _without_base(resources: dict[str, dict[str, GrantedResource]]) -> list[str]:
    """The documents of knowledge bases that the child does not have."""
    left = {kb_id for kb_id, base in resources.get("knowledge_bases", {}).items() if "retrieve" in base.operations}
    return [name for name in resources.get("files", {}) if (kb_id := base_of(name)) is not None and kb_id not in left]


def _narrowed(
    resource: GrantedResource,
    above: GrantedResource,
    kind: str,
    name: str,
    operations: dict[str, frozenset[str]],
    revoked: Revocation,
) -> GrantedResource | None:
    """The part of a resource that is left for the child, or `None`."""
    if revoked.all or name in revoked.resources.get(kind, ()):
        return None
    # A tool whose definition has changed is not the one that the parent was granted.
    if resource.about.get("definition_sha256") != above.about.get("definition_sha256"):
        return None
    left = resource.operations & above.operations & operations.get(kind, frozenset())
    return msgspec.structs.replace(resource, operations=left) if left or kind == "skills" else None


def narrow_limits(child: GrantLimits, parent: GrantLimits) -> GrantLimits:
    """The smaller of each limit."""
    return GrantLimits(
        deadline_s=min(child.deadline_s, parent.deadline_s),
        idle_s=min(child.idle_s, parent.idle_s),
        calls_per_s=min(child.calls_per_s, parent.calls_per_s),
        calls_in_flight=min(child.calls_in_flight, parent.calls_in_flight),
        calls_per_run=_smaller(child.calls_per_run, parent.calls_per_run),
        run_output_mib=_smaller(child.run_output_mib, parent.run_output_mib),
        payload_bytes=min(child.payload_bytes, parent.payload_bytes),
    )


def _smaller(*limits: int | None) -> int | None:
    """`None` is no limit."""
    return min((limit for limit in limits if limit is not None), default=None)


def issue_child_grant(
    *,
    run_id: str,
    access: Access,
    scope: Scope,
    limits: GrantLimits,
    parent: Grant,
    revoked: Revocation,
    graph_of: Callable[[Access], CapabilityGraph] | None = None,
) -> Grant:
    """Issue the grant of a child run. `access` is that of its agent, and `graph_of` builds the graph of the narrowed
    access."""
    _refuse_foreign_scope(scope, parent.scope)
    _refuse_too_deep(parent)
    left = narrow(access, parent, revoked)
    return issue_grant(
        run_id=run_id,
        access=left,
        scope=scope,
        limits=narrow_limits(limits, parent.limits),
        graph_sha256=None if graph_of is None else graph_of(left).sha256,
        parent=GrantParent(run_id=parent.run_id, grant_sha256=parent.sha256, depth=parent.depth + 1),
    )


def _refuse_too_deep(parent: Grant) -> None:
    if parent.depth >= limits.CHILD_RUN_DEPTH:
        raise InvalidRequest(
            f"run {parent.run_id} is {parent.depth} calls deep and may not call another agent",
            reason="calls_too_deep",
            hint=f"agent calls may be nested {limits.CHILD_RUN_DEPTH} deep",
            field="parent",
            run_id=parent.run_id,
            depth=parent.depth,
            most=limits.CHILD_RUN_DEPTH,
        )


def _refuse_foreign_scope(child: Scope, parent: Scope) -> None:
    """A child run has its parent's conversation, actor and subject, or none. Its bot is always its parent's, because
    the ids of people and rooms are only valid there."""
    no_conversation = child.conversation is None and child.thread is None
    pairs = {
        "workspace": child.workspace == parent.workspace,
        "bot": child.bot == parent.bot,
        "conversation": no_conversation or (child.conversation, child.thread) == (parent.conversation, parent.thread),
        "actor": (child.actor_type is None and child.actor_id is None)
        or (child.actor_type, child.actor_id) == (parent.actor_type, parent.actor_id),
        "subject": (child.subject_type is None and child.subject_id is None)
        or (child.subject_type, child.subject_id) == (parent.subject_type, parent.subject_id),
    }
    for name, fits in pairs.items():
        if not fits:
            raise InvalidRequest(
                f"the {name} of a child run differs from its parent's",
                reason="foreign_scope",
                hint="use the parent's, or none",
                field=name,
            )
