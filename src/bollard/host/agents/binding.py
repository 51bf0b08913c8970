"""A binding: which events go to which agent, and which of two bindings goes before the other.

Three things decide, in this order:

1. Scope. The levels are actor, thread, conversation, channel, bot, from the most to the least specific; a binding
   without any is the workspace's. Two scopes are compared level by level in that order, and the first level that only
   one of them names decides: an actor alone goes before thread, conversation, channel and bot together.
2. Filters. More filtered fields go before fewer. How many values a filter takes does not matter.
3. Priority. The larger number goes first.

Only equality and set membership can be asked, so whether two bindings can ever match the same event equally is decided
when one of them is saved, and not guessed when the event comes.
"""

from collections.abc import Iterable
from typing import Annotated, Final, Literal, Protocol, Self, get_args

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from bollard.host.agents.names import ID_CHARACTERS, ActorRef, ChosenName, ForeignId
from bollard.host.agents.saved_body import SavedBody
from bollard.host.errors import Conflict
from bollard.host.scope import Scope
from bollard.protocol import TRIGGER_SOURCES, Flag, Int, JsonObject, Strict

Level = Literal["actor", "thread", "conversation", "channel", "bot"]
LEVELS: Final[tuple[Level, ...]] = get_args(Level)
"""From the most to the least specific."""
FIELDS: Final = ("event_type", "source_event_type", "source", "trigger", "surface", "actor_type", "subject_type")
"""Event fields that can be filtered, beside `data.<key>`."""
DATA_PREFIX: Final = "data."
HOST_EVENTS: Final = frozenset(
    {"run.completed", "run.failed", "approval.requested", "artifact.created", "channel.status_changed"}
)
"""Types of events that the host derives from its own log. They go only to bindings that filter their type, so that a
binding for everything does not start its agent by the end of its own run."""

Rank = tuple[tuple[bool, ...], int, int]
"""Which levels are named, how many fields are filtered, the priority. The largest goes first."""


class RoutedEvent(Protocol):
    """The parts of an event that routing asks for."""

    @property
    def event_type(self) -> str: ...
    @property
    def source_event_type(self) -> str | None: ...
    @property
    def source(self) -> str: ...
    @property
    def trigger(self) -> str: ...
    @property
    def surface(self) -> str: ...
    @property
    def scope(self) -> Scope: ...
    @property
    def room(self) -> str | None: ...
    @property
    def data(self) -> JsonObject: ...


# --- the body of a binding ---


FILTERS: Final = 16
"""Filters of one binding."""
FILTER_VALUES: Final = 100
"""Values of one filter."""
PRIORITY_MAX: Final = 1000
"""The largest absolute value of a priority."""

_Value = Annotated[str, Field(min_length=1, max_length=ID_CHARACTERS)]
"""Compared as it is: an emoji has characters that do not show."""


def _filterable(name: str) -> str:
    if name not in FIELDS and not (name.startswith(DATA_PREFIX) and name != DATA_PREFIX):
        raise PydanticCustomError(
            "not_filterable", "cannot be filtered; there are {known} and data.<key>", {"known": ", ".join(FIELDS)}
        )
    return name


def _distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({*values}))


class BindingScope(Strict):
    """Where a binding holds. A level that is absent matches every event."""

    __qualname__ = "Scope"  # its name in the OpenAPI document
    bot: ForeignId | None = None
    channel: ForeignId | None = None
    conversation: ForeignId | None = None
    thread: ForeignId | None = None
    actor: ActorRef | None = None


class Filter(Strict):
    """One field of the event, and the values that it may have."""

    field: Annotated[ForeignId, AfterValidator(_filterable)]
    values: Annotated[tuple[_Value, ...], Field(min_length=1, max_length=FILTER_VALUES), AfterValidator(_distinct)]


def _by_field(filters: tuple[Filter, ...]) -> tuple[Filter, ...]:
    return tuple(sorted(filters, key=lambda item: item.field))


class Binding(SavedBody):
    """Which events go to which agent."""

    __qualname__ = "SaveBinding"  # the name of the body in the OpenAPI document; the answer is `Binding`
    noun = "binding"
    binding_id: ChosenName
    agent_id: ChosenName
    scope: BindingScope = Field(default_factory=BindingScope)
    filters: Annotated[tuple[Filter, ...], AfterValidator(_by_field)] = Field(default=(), max_length=FILTERS)
    priority: Int = Field(default=0, ge=-PRIORITY_MAX, le=PRIORITY_MAX)
    enabled: Flag = True

    @model_validator(mode="after")
    def _can_match(self) -> Self:
        if self.scope.thread is not None and self.scope.conversation is None:
            problem, hint = "a thread is part of a conversation", "name the conversation too"
            raise self.invalid("thread_without_conversation", "scope.thread", problem, hint)
        names = [item.field for item in self.filters]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            problem, hint = f"{twice[0]} is filtered twice", "put its values into one filter"
            raise self.invalid("filtered_twice", "filters", problem, hint, name=twice[0])
        for item in self.filters:
            self._check_filter(item)
        return self

    def _check_filter(self, item: Filter) -> None:
        if item.field == "trigger" and not {*item.values} <= {*TRIGGER_SOURCES}:
            names = ", ".join(TRIGGER_SOURCES)
            raise self.invalid("no_trigger", "filters", "there is no such trigger", f"use {names}", names=names)
        fixed = fixed_by(self.scope).get(item.field)
        if fixed is not None and fixed not in item.values:
            problem = f"in this scope {item.field} is always {fixed}"
            hint = f"leave out the filter of {item.field}, or widen the scope"
            raise self.invalid("filter_outside_scope", "filters", problem, hint, name=item.field, value=fixed)


# --- rules ---


def event_value(event: RoutedEvent, level: Level) -> str | None:
    """What an event has at a level, spelled as scopes spell it; `None` where it has nothing."""
    scope = event.scope
    match level:
        case "actor":
            # A colon in the type could be read as another actor's: such an actor has no spelling, so no scope names it.
            if not scope.actor_type or not scope.actor_id or ":" in scope.actor_type:
                return None
            return f"{scope.actor_type}:{scope.actor_id}"
        case "thread":
            return scope.thread
        case "conversation":
            return event.room
        case "channel":
            return event.source
        case "bot":
            return scope.bot


def filter_value(event: RoutedEvent, field: str) -> str | None:
    """What an event has in a filtered field; only texts can be compared."""
    if field.startswith(DATA_PREFIX):
        value = event.data.get(field.removeprefix(DATA_PREFIX))
    else:
        value = getattr(event.scope if field in ("actor_type", "subject_type") else event, field)
    return value if isinstance(value, str) else None


def host_events_of(binding: Binding) -> frozenset[str]:
    """The types of host events that the binding filters for."""
    named = [value for item in binding.filters if item.field == "event_type" for value in item.values]
    return HOST_EVENTS.intersection(named)


def rank_of(binding: Binding) -> Rank:
    """Of the bindings that match an event, the one with the largest rank gets it."""
    levels = tuple(getattr(binding.scope, level) is not None for level in LEVELS)
    return levels, len(binding.filters), binding.priority


def clash(one: Binding, other: Binding) -> bool:
    """Whether some event could match both bindings of one workspace, and neither goes before the other.

    Equal ranks name the same levels, so only equal scopes can meet in one event.
    """
    if not (one.enabled and other.enabled) or rank_of(one) != rank_of(other) or one.scope != other.scope:
        return False
    values = {item.field: {*item.values} for item in one.filters}
    return all(values.get(item.field, {*item.values}) & {*item.values} for item in other.filters)


def check_new(binding: Binding, others: Iterable[Binding]) -> None:
    """Refuse a binding that could match equally with another one; one with the same id is what it replaces."""
    for other in others:
        if other.binding_id == binding.binding_id or not clash(binding, other):
            continue
        example = _example(binding, other)
        described = ", ".join(f"{name} {value}" for name, value in example.items()) or "any event of the workspace"
        error = Conflict(
            f"bindings {binding.binding_id} and {other.binding_id} would both match the same event ({described}), "
            "and neither goes before the other",
            reason="bindings_clash",
            hint="give one of them another priority, a narrower scope or one more filter",
            binding=binding.binding_id,
            other=other.binding_id,
        )
        error.details["example"] = {**example}
        raise error


def _example(one: Binding, other: Binding) -> dict[str, str]:
    """Scope levels and event fields of an event that matches both."""
    example = {level: value for level in reversed(LEVELS) if (value := getattr(one.scope, level)) is not None}
    values = {item.field: {*item.values} for item in one.filters}
    for item in other.filters:
        values[item.field] = values.get(item.field, {*item.values}) & {*item.values}
    fixed = fixed_by(one.scope)
    return example | {name: min(found) for name, found in sorted(values.items()) if name not in fixed}


def fixed_by(scope: BindingScope) -> dict[str, str]:
    """Event fields that the scope itself decides."""
    fixed: dict[str, str] = {}
    if scope.channel is not None:
        fixed["source"] = scope.channel
    if scope.actor is not None:
        fixed["actor_type"] = scope.actor.partition(":")[0]
    return fixed
