"""Bodies of API requests. Parsing is strict: an unknown or invalid field is an error that names it."""

from typing import Annotated, Final, Literal, TypeVar

from pydantic import Field, ValidationError

from bollard.host.errors import InvalidRequest
from bollard.host.http.events.message_inputs import TakenInput
from bollard.host.identity.caller import Caller
from bollard.host.limits import EVENT_TIME_MAX_S
from bollard.host.runs.event import API_SOURCE, NewEvent
from bollard.host.scope import Actor as EventActor
from bollard.host.scope import Scope
from bollard.host.texts import Locale
from bollard.protocol import (
    AgentInput,
    ArtifactRef,
    ContentElement,
    Flag,
    Int,
    JsonObject,
    Strict,
    Timestamp,
    TriggerSource,
    first_problem,
    limits,
)
from bollard.protocol.shape import problem_details

S = TypeVar("S", bound=Strict)
Id = Annotated[str, Field(min_length=1, max_length=256)]
_LISTED: Final = 1000
"""The longest list of a revocation."""


class Actor(Strict):
    """The author of a message."""

    type: Id = "user"
    id: Id | None = None
    name: str | None = Field(default=None, max_length=256)

    @property
    def identity(self) -> EventActor:
        return EventActor(self.type, self.id)


class CreateRun(Strict):
    """`POST /api/v1/runs`: send a message to an agent."""

    agent: Id
    input: AgentInput = Field(default_factory=AgentInput)
    conversation: Id | None = None
    thread: Id | None = None
    actor: Actor | None = None
    id: Id | None = Field(default=None, description="The caller's own id; a repeated id gets the first run.")
    data: JsonObject = Field(default_factory=dict)
    execution: Literal["worker", "external"] = "worker"


class SteerRun(Strict):
    """`POST /api/v1/runs/{id}/steer`: send a message to an active run."""

    input: AgentInput
    actor: Actor | None = None
    id: Id | None = None


class MessageParts(Strict):
    """The contents of a message besides its text."""

    contents: tuple[ContentElement, ...] = Field(
        default=(), description="Texts, images and files. Inline files become artifacts."
    )
    attachments: tuple[ArtifactRef, ...] = Field(default=(), description="Artifacts of the same conversation.")

    @property
    def input(self) -> AgentInput:
        return AgentInput(contents=self.contents, attachments=self.attachments)


class EventFields(MessageParts):
    """The optional fields of an event."""

    agent: Id | None = None
    time: Annotated[Timestamp, Field(le=EVENT_TIME_MAX_S)] | None = None
    text: str | None = None
    bot: Id | None = None
    conversation: Id | None = None
    thread: Id | None = None
    actor: Actor | None = None
    subject_type: Id | None = None
    subject_id: Id | None = None
    source_event_type: Id | None = None
    data: JsonObject = Field(default_factory=dict)

    def scope(self, workspace: str) -> Scope:
        actor = self.actor
        return Scope(
            workspace=workspace,
            bot=self.bot,
            conversation=self.conversation,
            thread=self.thread,
            actor_type=None if actor is None else actor.type,
            actor_id=None if actor is None else actor.id,
            subject_type=self.subject_type,
            subject_id=self.subject_id,
        )

    def event(
        self,
        source: str,
        source_id: str,
        kind: str,
        scope: Scope,
        *,
        data: JsonObject,
        caller: str,
        trigger: TriggerSource = "webhook",
        traceparent: str | None = None,
    ) -> NewEvent:
        """The event with this identity. Raises `InvalidRequest`."""
        return NewEvent(
            source=source,
            source_id=source_id,
            event_type=kind,
            scope=scope,
            trigger=trigger,
            text=self.text,
            actor_name=None if self.actor is None else self.actor.name,
            event_ms=round(self.time * 1000) if self.time is not None else None,
            source_event_type=self.source_event_type,
            data=data,
            caller=caller,
            traceparent=traceparent,
        )


class PostEvent(EventFields):
    """`POST /api/v1/events`: send an event."""

    source: Id
    id: Id | None = None
    type: Id


class ResolveEvent(EventFields):
    """`POST /api/v1/bindings/resolve`: dry run of an event."""

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
    """`POST /api/v1/runs/{id}/results`: results of an external run."""

    results: tuple[_Result, ...] = Field(min_length=1, max_length=limits.WINDOW_RESULTS)


_Names = Annotated[tuple[Id, ...], Field(max_length=_LISTED)]


class RevokeGrant(Strict):
    """`POST /api/v1/runs/{id}/revoke`."""

    operations: _Names = ()
    resources: dict[Id, _Names] = Field(default_factory=dict)
    everything: Flag = False


def parsed(shape: type[S], body: JsonObject) -> S:
    """Parse a body; raises `InvalidRequest` for the first invalid field."""
    try:
        return shape.from_wire(body)
    except ValidationError as error:
        field, problem = first_problem(error)
        raise InvalidRequest(
            f"{field}: {problem}",
            reason="field",
            hint="see docs/reference/http.md",
            field=field,
            problem=problem,
            **problem_details(error),
        ) from error


def message_event(
    message: AgentInput,
    scope: Scope,
    source: str,
    source_id: str,
    *,
    caller: str,
    actor_name: str | None = None,
    data: JsonObject | None = None,
    traceparent: str | None = None,
    taken: TakenInput | None = None,
) -> NewEvent:
    """The event of a message that came through the API, with the contents that were `taken`."""
    taken = taken or TakenInput()
    return NewEvent(
        source=source,
        source_id=source_id,
        event_type="message.received",
        scope=scope,
        text=message.text,
        contents=taken.contents,
        attachments=taken.attachments,
        files=taken.files,
        actor_name=actor_name,
        data=data or {},
        caller=caller,
        traceparent=traceparent,
    )


def source_of(caller: Caller, chosen: str | None) -> str:
    """The source of a message. Each caller has its own source for ids that it chooses, so ids of two callers never
    clash."""
    return API_SOURCE if chosen is None or caller.kind == "installation" else f"{API_SOURCE}/{caller.name}"


def chosen_id(key: str | None, named: str | None) -> str | None:
    """The id that the caller chose: `key` of the header `Idempotency-Key`, or the one that the body names."""
    if key is None:
        return named
    if named is not None and named != key:
        raise InvalidRequest("Idempotency-Key and id differ", reason="id_differs", hint="send one of them", field="id")
    return key
