"""What an agent may do and how it is treated: frozen values, read strictly from what a person saved.

Only values. Compiling them into a grant, judging a message and delivering an answer happen elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Final, Literal, get_args

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from bollard.host.agents.names import ActorPattern, ForeignId
from bollard.host.agents.refusal import refusal
from bollard.host.errors import InvalidRequest
from bollard.host.limits import RUN_OUTPUT_MIB_MAX
from bollard.protocol import AgentRunnerPermissions, Flag, Int, JsonObject, Number, limits

APPROVAL_EXPIRES_MAX_S: Final = 7 * 24 * 3600
"""The longest time an approval may wait for its answer."""
LISTED_IDS: Final = 1000
"""Ids in one list of a policy."""
COUNT_MAX: Final = 1_000_000
"""The largest number a budget or a rate may say; who wants more says nothing."""

TOKENS_MAX: Final = 1_000_000_000_000
"""The largest number of tokens a budget may say."""

ConcurrencyMode = Literal["steer", "queue", "interrupt", "reject", "parallel"]
Who = Literal["everyone", "participants", "listed"]
StateScope = Literal["conversation", "actor", "subject", "runner"]
ResourceKind = Literal["models", "tools", "knowledge_bases", "files", "agents", "skills"]
RESOURCE_KINDS: Final[tuple[str, ...]] = get_args(ResourceKind)
RULE_ROLES: Final = ("viewer", "member", "operator", "admin")
"""Roles that a rule may name, as `role:member`. Those of the identity, written again because it stands above."""

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
            raise ValueError(f"{family!r} is no family of operations; there are {', '.join(OPERATIONS)}")
        for operation in operations:
            if operation not in OPERATIONS[family]:
                known = ", ".join(OPERATIONS[family])
                raise ValueError(f"{operation!r} is no operation of {family}; there are {known}")
    return {
        family: tuple(operation for operation in OPERATIONS[family] if operation in permissions[family])
        for family in OPERATIONS
        if permissions.get(family)
    }


Ids = Annotated[tuple[ForeignId, ...], Field(max_length=LISTED_IDS)]
Count = Annotated[Int, Field(ge=1, le=COUNT_MAX)]
Permissions = Annotated[dict[str, tuple[str, ...]], AfterValidator(_known_operations)]

# Read strictly, and only when first needed: most processes never read a policy.
_STRICT: Final = ConfigDict(extra="forbid", defer_build=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRule:
    """Of one kind of resource: what is added to the configuration's choice, and what the choice is cut down to."""

    __pydantic_config__ = _STRICT

    add: Ids = ()
    only: Ids | None = None
    """`None` cuts nothing; an empty list leaves nothing."""


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
    """When people are asked before something is done."""

    __pydantic_config__ = _STRICT

    mode: Literal["never", "on_risk", "always"] = "on_risk"
    when_asked: Literal["park", "fail_fast"] = "park"
    expires_s: Annotated[Int, Field(ge=1, le=APPROVAL_EXPIRES_MAX_S)] = 900
    other_person: Flag = False
    """Whether the one who says yes must be another than the one for whom the run acts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """How much calls may cost together. `None` is no limit."""

    __pydantic_config__ = _STRICT

    calls: Count | None = None
    tokens: Annotated[Int, Field(ge=1, le=TOKENS_MAX)] | None = None
    cost: Annotated[Number, Field(gt=0, le=COUNT_MAX)] | None = None
    """In the unit in which capabilities say theirs."""
    time_s: Annotated[Number, Field(gt=0, le=COUNT_MAX)] | None = None
    """Of all calls, those side by side too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetPolicy:
    """How much of it there may be. `None` is no limit of this agent's own."""

    __pydantic_config__ = _STRICT

    runs_per_day: Count | None = None
    runs_at_once: Count | None = None
    calls_per_run: Count | None = None
    """Of the run API."""
    run_output_mib: Annotated[Int, Field(ge=1, le=RUN_OUTPUT_MIB_MAX)] | None = None
    """MiB that one run may record. The setting of this name is the most in any case."""
    per_run: Spending | None = None
    """What the capabilities that a run calls may cost."""
    per_day: Spending | None = None
    """The same of all runs of the agent on one day, by UTC."""
    per_actor_day: Spending | None = None
    """The same of all runs for one actor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePolicy:
    """Who may talk to the agent, and how often."""

    __pydantic_config__ = _STRICT

    talk: Literal["everyone", "listed"] = "everyone"
    actors: Annotated[tuple[ActorPattern, ...], Field(max_length=LISTED_IDS)] = ()
    """`type:id`, or `type:*`."""
    messages_per_minute: Count | None = None
    """Of each actor."""
    burst: Count | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AudienceRule:
    """Who may do one thing with the agent's runs."""

    __pydantic_config__ = _STRICT

    who: Who
    actors: Annotated[tuple[ActorPattern, ...], Field(max_length=LISTED_IDS)] = ()
    """`type:id` or `type:*`, `user:ann` for a user wherever they speak, `role:member` for members and above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AudiencePolicy:
    """Who may steer and stop, see and approve. Talking has its gate. Whoever may change the agent is bound by none of
    it: they could change the rule."""

    __pydantic_config__ = _STRICT

    steer: AudienceRule = field(default_factory=lambda: AudienceRule(who="participants"))
    see: AudienceRule = field(default_factory=lambda: AudienceRule(who="everyone"))
    approve: AudienceRule = field(default_factory=lambda: AudienceRule(who="participants"))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPolicy:
    """Everything that people decide about an agent beside its configuration."""

    __pydantic_config__ = _STRICT

    access: AccessPolicy = field(default_factory=AccessPolicy)
    state: StatePolicy = field(default_factory=StatePolicy)
    delivery: DeliveryPolicy = field(default_factory=DeliveryPolicy)
    concurrency: ConcurrencyPolicy = field(default_factory=ConcurrencyPolicy)
    approval: ApprovalPolicy = field(default_factory=ApprovalPolicy)
    budget: BudgetPolicy = field(default_factory=BudgetPolicy)
    gate: GatePolicy = field(default_factory=GatePolicy)
    audience: AudiencePolicy = field(default_factory=AudiencePolicy)


_policies: Final = TypeAdapter(AgentPolicy)


def policy_from_wire(body: JsonObject, *, steering: bool = False) -> AgentPolicy:
    """Read what a person saved. `steering`: the runner declares it, so it is the mode of who names none."""
    try:
        policy = _policies.validate_python(_with_mode(body, "steer") if steering else body)
    except ValidationError as error:
        raise refusal(error, "policy") from error
    _refuse_half_said(policy.gate)
    _refuse_unknown_roles("policy.gate.actors", policy.gate.actors)
    for name in ("steer", "see", "approve"):
        _refuse_half_said_rule(name, getattr(policy.audience, name))
    return policy


def policy_to_wire(policy: AgentPolicy) -> JsonObject:
    """Every field spelled out; only what says nothing is left out."""
    return _policies.dump_python(policy, mode="json", exclude_none=True)


def _with_mode(body: JsonObject, mode: ConcurrencyMode) -> JsonObject:
    concurrency = body.get("concurrency", {})
    return {**body, "concurrency": {"mode": mode, **concurrency}} if isinstance(concurrency, dict) else body


def _refuse_half_said(gate: GatePolicy) -> None:
    """A list that has no effect is a mistake, and the dangerous one: its author believes that it shuts others out."""
    if gate.actors and gate.talk == "everyone":
        raise InvalidRequest(
            "policy.gate.actors lists actors, but policy.gate.talk lets everyone talk to the agent",
            hint='set talk to "listed", or leave actors empty',
            field="policy.gate.actors",
        )
    if gate.burst is not None and gate.messages_per_minute is None:
        raise InvalidRequest(
            "policy.gate.burst is set, but policy.gate.messages_per_minute is not",
            hint="set messages_per_minute too, or leave burst out",
            field="policy.gate.burst",
        )


def _refuse_half_said_rule(name: str, rule: AudienceRule) -> None:
    where = f"policy.audience.{name}.actors"
    if rule.actors and rule.who != "listed":
        raise InvalidRequest(
            f"{where} lists actors, but policy.audience.{name}.who is {rule.who}",
            hint='set who to "listed", or leave actors empty',
            field=where,
        )
    _refuse_unknown_roles(where, rule.actors)


def _refuse_unknown_roles(where: str, actors: tuple[str, ...]) -> None:
    """A role that nobody has would shut everybody out, and look as if it did not."""
    for actor in actors:
        kind, _, role = actor.partition(":")
        if kind == "role" and role not in RULE_ROLES:
            raise InvalidRequest(
                f"{where}: there is no role {role}", hint=f"the roles are {', '.join(RULE_ROLES)}", field=where
            )
