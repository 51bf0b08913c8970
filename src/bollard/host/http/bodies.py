"""Bodies of API requests. Parsing is strict: an unknown or invalid field is an error that names it."""

from typing import Annotated, Final, Literal, TypeVar

import msgspec
from pydantic import Field, ValidationError

from bollard.host.agents.saved_body import refusal
from bollard.host.errors import InvalidRequest
from bollard.host.http.events.message_inputs import TakenInput
from bollard.host.identity.caller import Caller
from bollard.host.limits import EVENT_DETAILS_BYTES, EVENT_TIME_MAX_S, MENTIONS
from bollard.host.runs.event import API_SOURCE, NO_DETAILS, EventDetails, MessageFacts, NewEvent
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
    limits,
)

S = TypeVar("S", bound=Strict)
Id = Annotated[str, Field(min_length=1, max_length=256)]
_LISTED: Final = 1000
"""The longest list of a revocation."""


class Actor(Strict):
    """The author of a message."""

    type: Id = "user"
    id: Id | None = None
    name: str | None = Field(default=None, max_length=256)
    metadata: JsonObject = Field(default_factory=dict, description="Passed to the runner.")

    @property
    def identity(self) -> EventActor:
        return EventActor(self.type, self.id)


class Launcher(Strict):
    """The chat on the platform that an event came from."""

    type: Id
    id: Id | None = None


Zone = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_+/-]{0,63}$", examples=["Asia/Shanghai"])]
Language = Annotated[str, Field(pattern=r"^[A-Za-z]{2,8}([_-][A-Za-z0-9]{1,8}){0,4}$", examples=["zh_Hans"])]


class CreateRun(Strict):
    """`POST /api/v1/runs`: send a message to an agent."""

    agent: Id
    input: AgentInput = Field(default_factory=AgentInput)
    conversation: Id | None = None
    thread: Id | None = None
    actor: Actor | None = None
    id: Id | None = Field(default=None, description="The caller's own id; a repeated id gets the first run.")
    data: JsonObject = Field(default_factory=dict)
    locale: Language | None = Field(default=None, description="The language of the sender.")
    timezone: Zone | None = Field(default=None, description="The time zone of the sender.")
    execution: Literal["worker", "external"] = "worker"

    @property
    def details(self) -> EventDetails | None:
        metadata: JsonObject = {} if self.actor is None else self.actor.metadata
        if self.locale is None and self.timezone is None and not metadata:
            return None  # almost every message
        return checked_details(EventDetails(locale=self.locale, timezone=self.timezone, actor_metadata=metadata))


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
    subject_data: JsonObject = Field(default_factory=dict, description="Passed to the runner.")
    launcher: Launcher | None = None
    session: Id | None = Field(default=None, description="The platform's own id of the session.")
    locale: Language | None = Field(default=None, description="The language of the sender.")
    timezone: Zone | None = Field(default=None, description="The time zone of the sender.")
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
            details=self._details(),
            caller=caller,
            traceparent=traceparent,
        )

    def _details(self) -> EventDetails | None:
        launcher = self.launcher
        return checked_details(
            EventDetails(
                locale=self.locale,
                timezone=self.timezone,
                launcher_type=None if launcher is None else launcher.type,
                launcher_id=None if launcher is None else launcher.id,
                session_id=self.session,
                actor_metadata={} if self.actor is None else self.actor.metadata,
                subject_data=self.subject_data,
            )
        )


class ChatFields(EventFields):
    """The fields of an event of a channel: also what the chat platform says about a message."""

    actor_is_bot: Flag = False
    is_private: Flag | None = Field(default=None, description="Whether only the actor and the bot are in the chat.")
    mentions: tuple[Id, ...] = Field(default=(), max_length=MENTIONS, description="Ids of mentioned bots and actors.")
    reply_to: Id | None = Field(default=None, description="The id of the message that this one answers.")

    @property
    def facts(self) -> MessageFacts:
        return MessageFacts(
            is_private=self.is_private, mentions=self.mentions, reply_to=self.reply_to, actor_is_bot=self.actor_is_bot
        )


class PostEvent(EventFields):
    """`POST /api/v1/events`: send an event."""

    source: Id
    id: Id | None = None
    type: Id


class ResolveEvent(ChatFields):
    """`POST /api/v1/bindings/resolve`: dry run of an event."""

    source: Id = "api"
    id: Id = "resolve"
    type: Id = "message.received"
    trigger: TriggerSource = "webhook"
    locale: Locale = "en_US"  # pyright: ignore[reportIncompatibleVariableOverride] -- here, of the explanation


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
        raise refusal(error, "", reason="field", hint="see docs/reference/http.md") from error


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
    details: EventDetails | None = None,
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
        details=details,
        caller=caller,
        traceparent=traceparent,
    )


def checked_details(details: EventDetails) -> EventDetails | None:
    """The details of an event, or `None` if it has none. Raises `InvalidRequest`."""
    if details == NO_DETAILS:
        return None
    if len(msgspec.json.encode(details)) > EVENT_DETAILS_BYTES:
        raise InvalidRequest(
            f"actor.metadata and subject_data are larger than {EVENT_DETAILS_BYTES} bytes",
            reason="details_too_large",
            hint="send them in data",
            field="actor.metadata",
            limit=EVENT_DETAILS_BYTES,
        )
    return details


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
