"""A binding as a person saves it, and as it is shown."""

from typing import Annotated, Final

from pydantic import AfterValidator, Field, ValidationError

from bollard.host.agents.binding import DATA_PREFIX, FIELDS, LEVELS, Binding, BindingScope, Filter, fixed_by
from bollard.host.agents.names import ID_CHARACTERS, ActorRef, ChosenName, ForeignId
from bollard.host.agents.refusal import refusal
from bollard.host.errors import InvalidRequest
from bollard.protocol import TRIGGER_SOURCES, Flag, Int, JsonObject, Strict

__all__ = ["SavedBinding", "binding_from_wire", "binding_to_wire"]

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
        raise ValueError(f"cannot be filtered; there are {', '.join(FIELDS)} and data.<key>")
    return name


class _Scope(Strict):
    bot: ForeignId | None = None
    channel: ForeignId | None = None
    conversation: ForeignId | None = None
    thread: ForeignId | None = None
    actor: ActorRef | None = None


class _Filter(Strict):
    field: Annotated[ForeignId, AfterValidator(_filterable)]
    values: tuple[_Value, ...] = Field(min_length=1, max_length=FILTER_VALUES)


class SavedBinding(Strict):
    binding_id: ChosenName
    agent_id: ChosenName
    scope: _Scope = Field(default_factory=_Scope)
    filters: tuple[_Filter, ...] = Field(default=(), max_length=FILTERS)
    priority: Int = Field(default=0, ge=-PRIORITY_MAX, le=PRIORITY_MAX)
    enabled: Flag = True


def binding_from_wire(body: JsonObject, workspace: str = "default") -> Binding:
    """The binding that a person saves; one that could never match is refused."""
    try:
        saved = SavedBinding.from_wire(body)
    except ValidationError as error:
        raise refusal(error, "binding") from error
    binding = Binding(
        binding_id=saved.binding_id,
        workspace=workspace,
        agent_id=saved.agent_id,
        scope=BindingScope(**{level: getattr(saved.scope, level) for level in LEVELS}),
        filters=tuple(
            sorted(
                (Filter(field=item.field, values=frozenset(item.values)) for item in saved.filters),
                key=lambda item: item.field,
            )
        ),
        priority=saved.priority,
        enabled=saved.enabled,
    )
    _refuse_impossible(binding)
    return binding


def binding_to_wire(binding: Binding) -> JsonObject:
    """What `binding_from_wire` takes."""
    return {
        "binding_id": binding.binding_id,
        "agent_id": binding.agent_id,
        "scope": {level: value for level in reversed(LEVELS) if (value := getattr(binding.scope, level)) is not None},
        "filters": [{"field": item.field, "values": [*sorted(item.values)]} for item in binding.filters],
        "priority": binding.priority,
        "enabled": binding.enabled,
    }


def _refuse_impossible(binding: Binding) -> None:
    if binding.scope.thread is not None and binding.scope.conversation is None:
        raise _impossible("binding.scope.thread: a thread is part of a conversation", "name the conversation too")
    names = [item.field for item in binding.filters]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise _impossible(f"binding.filters: {twice[0]} is filtered twice", "put its values into one filter")
    fixed = fixed_by(binding.scope)
    for item in binding.filters:
        if item.field == "trigger" and not item.values <= {*TRIGGER_SOURCES}:
            raise _impossible("binding.filters: there is no such trigger", f"use {', '.join(TRIGGER_SOURCES)}")
        if item.field in fixed and fixed[item.field] not in item.values:
            raise _impossible(
                f"binding.filters: in this scope {item.field} is always {fixed[item.field]}",
                f"leave out the filter of {item.field}, or widen the scope",
            )


def _impossible(sentence: str, hint: str) -> InvalidRequest:
    return InvalidRequest(sentence, hint=hint, field=sentence.partition(":")[0])
