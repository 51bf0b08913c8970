"""Bodies and queries of API requests, strict: an unknown or wrong field is refused by name."""

from typing import Annotated, Final, Literal, TypeVar

from pydantic import Field, ValidationError
from starlette.requests import Request

from bollard.host.agents.words import Locale
from bollard.host.errors import InvalidRequest
from bollard.host.runs.event import NewEvent
from bollard.protocol import (
    AgentInput,
    Flag,
    Int,
    JsonObject,
    Strict,
    Timestamp,
    TriggerSource,
    first_problem,
    limits,
)

__all__ = [
    "AppendResults",
    "CreateRun",
    "EventFields",
    "PostEvent",
    "ResolveEvent",
    "RevokeGrant",
    "SteerRun",
    "chosen_id",
    "message_of",
    "page_limit",
    "parsed",
    "whole_number",
]

S = TypeVar("S", bound=Strict)
Id = Annotated[str, Field(min_length=1, max_length=256)]
_ID_CHARACTERS: Final = 256
_LISTED: Final = 1000
"""Names in one list of a revocation."""


class Actor(Strict):
    """Who speaks."""

    type: Id = "user"
    id: Id | None = None
    name: str | None = Field(default=None, max_length=256)


class CreateRun(Strict):
    """`POST /api/v1/runs`: say something to an agent."""

    agent: Id
    input: AgentInput = Field(default_factory=AgentInput)
    conversation: Id | None = None
    thread: Id | None = None
    actor: Actor | None = None
    id: Id | None = Field(default=None, description="The caller's own id: the same again gets the first run.")
    data: JsonObject = Field(default_factory=dict)
    execution: Literal["worker", "external"] = "worker"


class SteerRun(Strict):
    """`POST /api/v1/runs/{id}/steer`: a message for a run that is active."""

    input: AgentInput
    actor: Actor | None = None
    id: Id | None = None


class EventFields(Strict):
    """What an event may have beside its identity."""

    agent: Id | None = None
    time: Timestamp | None = None
    text: str | None = None
    bot: Id | None = None
    conversation: Id | None = None
    thread: Id | None = None
    actor: Actor | None = None
    subject_type: Id | None = None
    subject_id: Id | None = None
    data: JsonObject = Field(default_factory=dict)

    def event(self, source: str, source_id: str, kind: str, trigger: TriggerSource = "webhook") -> NewEvent:
        """The event, under this identity."""
        actor = self.actor
        return NewEvent(
            source=source,
            source_id=source_id,
            event_type=kind,
            trigger=trigger,
            text=self.text,
            bot=self.bot,
            conversation=self.conversation,
            thread=self.thread,
            actor_type=actor.type if actor is not None else None,
            actor_id=actor.id if actor is not None else None,
            actor_name=actor.name if actor is not None else None,
            subject_type=self.subject_type,
            subject_id=self.subject_id,
            event_ms=round(self.time * 1000) if self.time is not None else None,
            data=self.data,
        )


class PostEvent(EventFields):
    """`POST /api/v1/events`: something happened."""

    source: Id
    id: Id | None = None
    type: Id


class ResolveEvent(EventFields):
    """`POST /api/v1/resolve`: what would become of an event."""

    source: Id = "api"
    id: Id = "resolve"
    type: Id = "message.received"
    trigger: TriggerSource = "webhook"
    locale: Locale = "en_US"


class _Result(Strict):
    sequence: Int = Field(ge=1)
    type: Id
    data: JsonObject


class AppendResults(Strict):
    """`POST /api/v1/runs/{id}/results`: what an outside program has to say."""

    results: tuple[_Result, ...] = Field(min_length=1, max_length=limits.WINDOW_RESULTS)


_Names = Annotated[tuple[Id, ...], Field(max_length=_LISTED)]


class RevokeGrant(Strict):
    """`POST /api/v1/runs/{id}/revoke`."""

    operations: _Names = ()
    resources: dict[Id, _Names] = Field(default_factory=dict)
    everything: Flag = False


def parsed(shape: type[S], body: JsonObject) -> S:
    """The body as its shape; raises `InvalidRequest` with the first field that does not fit."""
    try:
        return shape.from_wire(body)
    except ValidationError as error:
        field, problem = first_problem(error)
        raise InvalidRequest(f"{field}: {problem}", hint="see docs/reference/http.md", field=field) from error


def message_of(
    said: AgentInput,
    actor: Actor | None,
    source_id: str,
    *,
    bot: str | None = None,
    conversation: str | None = None,
    thread: str | None = None,
    data: JsonObject | None = None,
) -> NewEvent:
    """What somebody says through this API."""
    return NewEvent(
        source="api",
        source_id=source_id,
        event_type="message.received",
        text=said.text,
        contents=tuple(element.to_wire() for element in said.contents),
        bot=bot,
        conversation=conversation,
        thread=thread,
        actor_type=actor.type if actor is not None else None,
        actor_id=actor.id if actor is not None else None,
        actor_name=actor.name if actor is not None else None,
        data=data or {},
    )


def chosen_id(request: Request, named: str | None) -> str | None:
    """The caller's own id: of the body, or of the header `Idempotency-Key`, which means the same."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return named
    if not key or len(key) > _ID_CHARACTERS or not (key.isascii() and key.isprintable()):
        raise InvalidRequest(
            f"Idempotency-Key is not 1 to {_ID_CHARACTERS} printable ASCII characters",
            hint="send any other id as `id` in the body",
            field="id",
        )
    if named is not None and named != key:
        raise InvalidRequest("Idempotency-Key and id differ", hint="send one of them", field="id")
    return key


def page_limit(request: Request) -> int:
    """How many items of a list are wanted."""
    text = request.query_params.get("limit", "50")
    if not text.isascii() or not text.isdigit() or len(text) > 9 or not 1 <= int(text) <= limits.PAGE_ITEMS:
        raise InvalidRequest(
            f"limit is not between 1 and {limits.PAGE_ITEMS}", hint=f"use 1 to {limits.PAGE_ITEMS}", field="limit"
        )
    return int(text)


def whole_number(request: Request, name: str, hint: str) -> int | None:
    """A number of the query; `None` where it is absent."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise InvalidRequest(f"{name} is not a whole number", hint=hint, field=name)
    return int(text)
