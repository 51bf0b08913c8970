"""The policy of an agent: what it may do, who may use it, and its limits. Frozen values with strict validation.

Only values. Compiling them into a grant, judging a message and delivering an answer happen elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Final, Literal, get_args

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from bollard.host.agents.approval_rules import RULES, ApprovalRule
from bollard.host.agents.names import ActorPattern, ForeignId
from bollard.host.agents.saved_body import refusal
from bollard.host.errors import InvalidRequest
from bollard.host.limits import RUN_OUTPUT_MIB_MAX
from bollard.protocol import AgentRunnerPermissions, Flag, Int, JsonObject, Number, limits

APPROVAL_EXPIRES_MAX_S: Final = 7 * 24 * 3600
"""The longest time an approval may wait for its answer."""
LISTED_IDS: Final = 1000
"""Ids in one list of a policy."""
COUNT_MAX: Final = 1_000_000
"""The largest value of a budget or a rate. Without a value there is no limit."""

TOKENS_MAX: Final = 1_000_000_000_000
"""The largest token budget."""

ConcurrencyMode = Literal["steer", "queue", "interrupt", "reject", "parallel"]
Who = Literal["everyone", "participants", "listed"]
StateScope = Literal["conversation", "actor", "subject", "runner"]
ResourceKind = Literal["models", "tools", "knowledge_bases", "files", "agents", "skills", "platform"]
RESOURCE_KINDS: Final[tuple[str, ...]] = get_args(ResourceKind)
RULE_ROLES: Final = ("viewer", "member", "operator", "admin")
"""Roles that a rule may name, as `role:member`. Repeated here, because this package must not import the identity."""

OPERATIONS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        family: tuple(get_args(get_args(info.annotation)[0]))
        for family, info in AgentRunnerPermissions.model_fields.items()
    }
)
"""Every operation by family, as manifests name them."""


def _known_operations(permissions: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    for family, operations in permissions.items():
        if family not in OPERATIONS:
            raise PydanticCustomError(
                "unknown_family",
                "'{family}' is no family of operations; there are {known}",
                {"family": family, "known": ", ".join(OPERATIONS)},
            )
        for operation in operations:
            if operation not in OPERATIONS[family]:
                raise PydanticCustomError(
                    "unknown_operation",
                    "'{operation}' is no operation of {family}; there are {known}",
                    {"operation": operation, "family": family, "known": ", ".join(OPERATIONS[family])},
                )
    return {
        family: tuple(operation for operation in OPERATIONS[family] if operation in permissions[family])
        for family in OPERATIONS
        if permissions.get(family)
    }


Ids = Annotated[tuple[ForeignId, ...], Field(max_length=LISTED_IDS)]
Count = Annotated[Int, Field(ge=1, le=COUNT_MAX)]
Permissions = Annotated[dict[str, tuple[str, ...]], AfterValidator(_known_operations)]

# Strict, and built on first use: most processes never read a policy.
_STRICT: Final = ConfigDict(extra="forbid", defer_build=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRule:
    """For one kind of resource: what is added to the selection of the configuration, and what limits it."""

    __pydantic_config__ = _STRICT

    add: Ids = ()
    only: Ids | None = None
    """`None` limits nothing; an empty list allows nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessPolicy:
    """What runs of the agent may reach. Empty means nothing."""

    __pydantic_config__ = _STRICT

    permissions: Permissions = field(default_factory=dict[str, tuple[str, ...]])
    """Operations by family. The manifest's permissions limit them."""
    resources: dict[ResourceKind, ResourceRule] = field(default_factory=dict[ResourceKind, ResourceRule])
    conversations: Ids = ()
    """Other conversations whose history may be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePolicy:
    """Which state the agent keeps."""

    __pydantic_config__ = _STRICT

    enabled: Flag = True
    scopes: tuple[StateScope, ...] = ("conversation", "actor")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPolicy:
    """How answers go out."""

    __pydantic_config__ = _STRICT

    streaming: Flag = True
    reply: Flag = True
    target: ForeignId | None = None
    """Where the answer to an event without a reply target goes."""
    max_message_size: Annotated[Int, Field(ge=1, le=limits.RESULT_BYTES)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrencyPolicy:
    """What happens to a message that arrives while a run of its conversation is active."""

    __pydantic_config__ = _STRICT

    mode: ConcurrencyMode = "queue"
    steer_from: Literal["same_actor", "conversation"] = "same_actor"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPolicy:
    """When an approval is required before an action."""

    __pydantic_config__ = _STRICT

    mode: Literal["never", "on_risk", "always"] = "on_risk"
    when_asked: Literal["park", "fail_fast"] = "park"
    expires_s: Annotated[Int, Field(ge=1, le=APPROVAL_EXPIRES_MAX_S)] = 900
    other_person: Flag = False
    """Whether the approver must not be the actor of the run."""
    rules: Annotated[tuple[ApprovalRule, ...], Field(max_length=RULES)] = ()
    """The first rule that matches a call replaces `mode` for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """How much calls may cost in total. `None` is no limit."""

    __pydantic_config__ = _STRICT

    calls: Count | None = None
    tokens: Annotated[Int, Field(ge=1, le=TOKENS_MAX)] | None = None
    cost: Annotated[Number, Field(gt=0, le=COUNT_MAX)] | None = None
    """In the cost unit of capabilities."""
    time_s: Annotated[Number, Field(gt=0, le=COUNT_MAX)] | None = None
    """Total time of all calls, including concurrent ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPolicy:
    """Limits of the agent. `None` is no limit of its own."""

    __pydantic_config__ = _STRICT

    runs_per_day: Count | None = None
    runs_at_once: Count | None = None
    calls_per_run: Count | None = None
    """Calls of the run API."""
    run_output_mib: Annotated[Int, Field(ge=1, le=RUN_OUTPUT_MIB_MAX)] | None = None
    """MiB that one run may record. The setting of the same name is the upper limit."""
    per_run: Spending | None = None
    """The cost limit of one run."""
    per_day: Spending | None = None
    """The cost limit of all runs of the agent on one UTC day."""
    per_actor_day: Spending | None = None
    """The cost limit of all runs for one actor on one UTC day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationPolicy:
    """How runs of the agent may call other agents. `None` is no limit of its own."""

    __pydantic_config__ = _STRICT

    parallel_calls: Count | None = None
    """Concurrent calls of one run."""
    depth: Annotated[Int, Field(ge=0, le=limits.CHILD_RUN_DEPTH)] | None = None
    """Levels of runs below a run of the agent. 0: it calls no agent."""
    iterations: Count | None = None
    """Calls of one run in total."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePolicy:
    """Who may talk to the agent, and how often."""

    __pydantic_config__ = _STRICT

    talk: Literal["everyone", "listed"] = "everyone"
    actors: Annotated[tuple[ActorPattern, ...], Field(max_length=LISTED_IDS)] = ()
    """`type:id`, or `type:*`."""
    messages_per_minute: Count | None = None
    """Messages per minute from each actor."""
    burst: Count | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AudienceRule:
    """Who may perform one operation on the runs of the agent."""

    __pydantic_config__ = _STRICT

    who: Who
    actors: Annotated[tuple[ActorPattern, ...], Field(max_length=LISTED_IDS)] = ()
    """`type:id` or `type:*`; `user:ann` for a user on any channel; `role:member` for members and above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AudiencePolicy:
    """Who may steer and stop, see and approve. `GatePolicy` decides who may talk. None of this limits people who may
    edit the agent, because they could change the rule."""

    __pydantic_config__ = _STRICT

    steer: AudienceRule = field(default_factory=lambda: AudienceRule(who="participants"))
    see: AudienceRule = field(default_factory=lambda: AudienceRule(who="participants"))
    approve: AudienceRule = field(default_factory=lambda: AudienceRule(who="participants"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPolicy:
    """All policies of an agent. Its configuration is separate."""

    __pydantic_config__ = _STRICT

    access: AccessPolicy = field(default_factory=AccessPolicy)
    state: StatePolicy = field(default_factory=StatePolicy)
    delivery: DeliveryPolicy = field(default_factory=DeliveryPolicy)
    concurrency: ConcurrencyPolicy = field(default_factory=ConcurrencyPolicy)
    approval: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    budget: BudgetPolicy = field(default_factory=BudgetPolicy)
    delegation: DelegationPolicy = field(default_factory=DelegationPolicy)
    gate: GatePolicy = field(default_factory=GatePolicy)
    audience: AudiencePolicy = field(default_factory=AudiencePolicy)


_policies: Final = TypeAdapter(AgentPolicy)


def policy_from_wire(body: JsonObject) -> AgentPolicy:
    """Read a saved policy. Raises `InvalidRequest`."""
    try:
        policy = _policies.validate_python(body)
    except ValidationError as error:
        raise refusal(error, "policy") from error
    _check_gate(policy.gate)
    _check_roles("policy.gate.actors", policy.gate.actors)
    for name in ("steer", "see", "approve"):
        _check_audience(name, getattr(policy.audience, name))
    return policy


def policy_to_wire(policy: AgentPolicy) -> JsonObject:
    """Every field except those that are `None`."""
    return _policies.dump_python(policy, mode="json", exclude_none=True)


def _check_gate(gate: GatePolicy) -> None:
    """Refuse a list without effect: its author believes that it keeps others out."""
    if gate.actors and gate.talk == "everyone":
        raise InvalidRequest(
            "policy.gate.actors lists actors, but policy.gate.talk lets everyone talk to the agent",
            reason="gate_actors_unused",
            hint='set talk to "listed", or leave actors empty',
            field="policy.gate.actors",
        )
    if gate.burst is not None and gate.messages_per_minute is None:
        raise InvalidRequest(
            "policy.gate.burst is set, but policy.gate.messages_per_minute is not",
            reason="gate_burst_unused",
            hint="set messages_per_minute too, or leave burst out",
            field="policy.gate.burst",
        )


def _check_audience(name: str, rule: AudienceRule) -> None:
    where = f"policy.audience.{name}.actors"
    if rule.actors and rule.who != "listed":
        raise InvalidRequest(
            f"{where} lists actors, but policy.audience.{name}.who is {rule.who}",
            reason="audience_actors_unused",
            hint='set who to "listed", or leave actors empty',
            field=where,
            name=name,
            who=rule.who,
        )
    _check_roles(where, rule.actors)


def _check_roles(where: str, actors: tuple[str, ...]) -> None:
    """Refuse unknown roles: they would exclude everyone without a warning."""
    for actor in actors:
        kind, _, role = actor.partition(":")
        if kind == "role" and role not in RULE_ROLES:
            names = ", ".join(RULE_ROLES)
            message, hint = f"{where}: there is no role {role}", f"the roles are {names}"
            raise InvalidRequest(message, reason="no_role", hint=hint, field=where, role=role, names=names)
