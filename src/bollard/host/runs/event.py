"""A validated event: the parts of a CloudEvent that a run needs, and where its answers are delivered. Pure."""

from dataclasses import InitVar, dataclass, field
from typing import Any, Final

import msgspec

from bollard.host.agents.binding import HOST_EVENTS
from bollard.host.agents.commands import COMMAND_INVOKED
from bollard.host.agents.policies import DeliveryPolicy
from bollard.host.errors import InvalidRequest
from bollard.host.files.message_file import MessageFile
from bollard.host.limits import (
    EVENT_DATA_BYTES,
    EVENT_DATA_DEPTH,
    EVENT_DATA_VALUES,
    EVENT_NAME_CHARACTERS,
    INPUT_CONTENTS_BYTES,
    INPUT_TEXT_BYTES,
)
from bollard.host.log.records import NO_BITS, UNTRUSTED_BIT, DeliverTo, NewRecord
from bollard.host.scope import Scope
from bollard.host.store.keys import key_problem
from bollard.host.telemetry.tracer import parse_traceparent
from bollard.host.texts import Locale, nearest
from bollard.protocol import JsonObject, JsonValue, TriggerSource

_STREAM_READERS: Final[frozenset[TriggerSource]] = frozenset({"api", "webui"})
"""Triggers whose senders read the stream of the run. The agent's own delivery target does not apply to them."""


class ReplyRoute(msgspec.Struct, frozen=True, kw_only=True):
    """The channel that an event came through. Stored with the event, so that a run never looks a channel up."""

    channel: str
    target: str
    """The channel's own id of the recipient."""
    supports_streaming: bool = False
    supports_edit: bool = False
    supports_reaction: bool = False
    max_message_size: int | None = None
    platform_capabilities: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])
    """The abilities of the channel that have no field of their own."""


def deliver_to(reply: ReplyRoute | None, trigger: TriggerSource, policy: DeliveryPolicy) -> DeliverTo | None:
    """The delivery target of a run. `None` if its messages go only to readers of its stream."""
    size = policy.max_message_size
    if reply is not None:
        if not policy.reply:
            return None
        streaming = policy.streaming and reply.supports_streaming
        sizes = [each for each in (size, reply.max_message_size) if each is not None]
        return DeliverTo(
            channel=reply.channel,
            target=reply.target,
            streaming=streaming,
            max_message_size=min(sizes) if sizes else None,
        )
    if policy.target is None or trigger in _STREAM_READERS:
        return None
    channel, _, target = policy.target.partition(":")
    return DeliverTo(channel=channel, target=target, streaming=policy.streaming, max_message_size=size)


def delivery_context(
    reply: ReplyRoute | None, surface: str, policy: DeliveryPolicy, goes_to: DeliverTo | None
) -> JsonObject:
    """The delivery part of the start request. Unknown fields are left out."""
    context: JsonObject = {"surface": surface, "supports_streaming": policy.streaming}
    if reply is not None:
        context["supports_streaming"] = policy.streaming and reply.supports_streaming
        context["supports_edit"] = reply.supports_edit
        context["supports_reaction"] = reply.supports_reaction
        context["platform_capabilities"] = reply.platform_capabilities
    if goes_to is not None:
        context["reply_target"] = {"channel": goes_to.channel, "target": goes_to.target}
        if goes_to.max_message_size is not None:
            context["max_message_size"] = goes_to.max_message_size
    return context


class EventDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Optional facts about the sender and the place of an event, for the runner: no rule reads them. Texts of the host
    follow `locale` too."""

    locale: str | None = None
    timezone: str | None = None
    launcher_type: str | None = None
    """The kind of chat on the platform, such as `group`."""
    launcher_id: str | None = None
    session_id: str | None = None
    actor_metadata: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])
    subject_data: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])


NO_DETAILS: Final = EventDetails()

OWN_SOURCE: Final = "bollard:"
"""Prefix of the sources of events that the host raises itself. Reserved."""
RUN_SOURCE: Final = "run:"
"""Prefix of the source of a call from one agent to another."""
API_SOURCE: Final = "api"
"""The source of API messages. If callers choose the ids, a slash and the caller follow."""
HOST_SOURCE: Final = f"{OWN_SOURCE}events"
"""The source of events that the host derives from its own log."""
APPROVALS_SOURCE: Final = f"{OWN_SOURCE}approvals"
"""The source of decisions about calls that outlived their run."""
OWN_EVENTS: Final = HOST_EVENTS | {"approval.decided"}
"""Event types that only the host raises."""

_FROM_PEOPLE: Final = frozenset[TriggerSource]({"platform", "webui", "api"})
_FROM_OUTSIDE: Final = frozenset[TriggerSource]({"platform", "webhook", "host_adapter"})
_VALUES_OF_ELEMENT: Final = 10
"""The maximum of JSON values in an input element or attachment."""
_SCOPE_IDS: Final = ("bot", "conversation", "thread", "actor_id", "subject_id")
_CHECKED: Final = (*_SCOPE_IDS, "source_event_type", "actor_type", "actor_name", "subject_type")
_IN_SCOPE: Final = frozenset(Scope.__struct_fields__)


class RawPayload(msgspec.Struct, frozen=True, kw_only=True):
    """A payload that is too large for `data` or not JSON. It is stored as an artifact."""

    artifact_id: str
    sha256: str
    size_bytes: int
    mime_type: str | None = None
    expires_ms: int | None = None


class MessageFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a chat platform says about a message. Rules of channels ask for it."""

    is_private: bool | None = None
    mentions: tuple[str, ...] = ()
    """Ids of the bots and actors that the message mentions."""
    reply_to: str | None = None
    """The platform's id of the message that this one answers."""
    actor_is_bot: bool = False
    room: str | None = None
    """The conversation as the channel names it, if the host has begun a new one since."""


_NO_FACTS: Final = MessageFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """`source` and `source_id` are the idempotency key: a repeated event gets its first outcome."""

    source: str
    source_id: str
    event_type: str
    scope: Scope
    trigger: TriggerSource = "api"
    text: str | None = None
    contents: tuple[JsonObject, ...] = ()
    attachments: tuple[JsonObject, ...] = ()
    """Artifacts of the conversation, each as an `ArtifactRef`."""
    files: tuple[MessageFile, ...] = ()
    """The files that came with the message. Each is a record in the commit of the event, so they are not in its own."""
    actor_name: str | None = None
    surface: str = "api"
    event_ms: int | None = None
    data: JsonObject = field(default_factory=dict[str, JsonValue])
    source_event_type: str | None = None
    """The platform's own event type, if it differs from the stable name."""
    raw: RawPayload | None = None
    reply: ReplyRoute | None = None
    """The channel that the event came through."""
    details: EventDetails | None = None
    facts: MessageFacts = _NO_FACTS
    extra: JsonObject | None = None
    """Transport metadata for the runner. Never history, tools or grants."""
    caller: str | None = None
    """The API caller or the channel. `None` for events of the host itself."""
    traceparent: str | None = None
    """The W3C trace context. Malformed values are dropped."""
    carries: int = NO_BITS
    """Bits of `Flow` of the run that raised the event."""
    known: InitVar[bool] = False
    """The event comes from the log: its names were valid under earlier rules and are not checked."""

    def __post_init__(self, known: bool) -> None:
        if not known:
            self._check_names()
        if self.source_event_type == "":
            object.__setattr__(self, "source_event_type", None)
        # An empty id must not become a scope that unrelated senders share.
        if empty := [name for name in _SCOPE_IDS if getattr(self.scope, name) == ""]:
            object.__setattr__(self, "scope", msgspec.structs.replace(self.scope, **dict.fromkeys(empty)))
        if self.traceparent is not None:
            parsed = parse_traceparent(self.traceparent)
            object.__setattr__(self, "traceparent", None if parsed is None else parsed.traceparent)
        if self.text is not None and len(self.text.encode("utf-8", "replace")) > INPUT_TEXT_BYTES:
            raise InvalidRequest(
                f"the text is longer than {INPUT_TEXT_BYTES} bytes",
                reason="text_too_long",
                hint="send it in several messages",
                field="text",
                limit=INPUT_TEXT_BYTES,
            )
        if self.contents and not known and len(msgspec.json.encode(self.contents)) > INPUT_CONTENTS_BYTES:
            raise InvalidRequest(
                f"the contents are longer than {INPUT_CONTENTS_BYTES} bytes, not counting files",
                reason="contents_too_long",
                hint="send a long text as a file",
                field="contents",
                limit=INPUT_CONTENTS_BYTES,
            )
        data = msgspec.json.encode(self.data)
        if len(data) > EVENT_DATA_BYTES:
            raise InvalidRequest(
                f"data is larger than {EVENT_DATA_BYTES} bytes",
                reason="data_too_large",
                hint="send a reference instead",
                field="data",
                limit=EVENT_DATA_BYTES,
            )
        # A cheap estimate on the bytes first. Only data that may exceed the limits is walked.
        beside = 0 if known else _VALUES_OF_ELEMENT * (len(self.contents) + len(self.attachments))
        many = data.count(b",") + beside > EVENT_DATA_VALUES // 2
        if many or data.count(b"{") + data.count(b"[") > EVENT_DATA_DEPTH:
            _check_structure(self.data, beside)

    def locale(self, otherwise: Locale) -> Locale:
        """The language of the host's own texts for the sender."""
        return nearest(None if self.details is None else self.details.locale, otherwise)

    def _check_names(self) -> None:
        """Refuse names that a store cannot store unchanged: two of them could become equal."""
        scope = self.scope
        names = (
            *(self.source, self.source_id, self.event_type, self.source_event_type, self.actor_name),
            *(scope.bot, scope.conversation, scope.thread, scope.actor_id, scope.subject_id),
            *(scope.actor_type, scope.subject_type),
        )
        joined = "".join(filter(None, names))
        if all(names[:3]) and joined.isascii() and len(joined) <= EVENT_NAME_CHARACTERS and "\0" not in joined:
            return  # almost every event: each name is within the limits if all of them together are
        for name in ("source", "source_id", "event_type"):
            value = getattr(self, name)
            if not value or len(value) > EVENT_NAME_CHARACTERS:
                raise InvalidRequest(
                    f"{name} is empty or longer than {EVENT_NAME_CHARACTERS} characters",
                    reason="event_name_length",
                    hint=f"use 1 to {EVENT_NAME_CHARACTERS} characters",
                    field=name,
                    limit=EVENT_NAME_CHARACTERS,
                )
            if (problem := key_problem(value)) is not None:
                hint = "choose another value"
                message = f"{name} {problem}"
                raise InvalidRequest(message, reason="event_name", hint=hint, field=name, problem=problem)
        for name in _CHECKED:
            value = getattr(self.scope if name in _IN_SCOPE else self, name) or ""
            problem = key_problem(value)
            if len(value) > EVENT_NAME_CHARACTERS:
                problem = f"is longer than {EVENT_NAME_CHARACTERS} characters"
            if problem is not None:
                hint = "send the id that the platform uses"
                message = f"{name} {problem}"
                raise InvalidRequest(message, reason="event_id", hint=hint, field=name, problem=problem)

    @property
    def key(self) -> tuple[str, str, str]:
        """The idempotency key."""
        return self.scope.workspace, self.source, self.source_id

    @property
    def room(self) -> str | None:
        """The conversation as the channel names it."""
        return self.facts.room or self.scope.conversation

    @property
    def texts(self) -> tuple[str, ...]:
        """Its text, and the texts in its contents."""
        texts = (self.text, *(each["text"] for each in self.contents if each.get("type") == "text"))
        return tuple(text for text in texts if isinstance(text, str))

    @property
    def is_message(self) -> bool:
        return self.event_type == "message.received"

    @property
    def is_spoken(self) -> bool:
        """Whether it is a message or a command. Such an event can steer a run."""
        return self.is_message or self.event_type == COMMAND_INVOKED

    @property
    def attended(self) -> bool:
        """Whether a person sent it, so that questions can be asked."""
        return self.is_spoken and self.trigger in _FROM_PEOPLE

    @property
    def flow(self) -> int:
        """The bits of `Flow` of its content. Content of platforms and webhooks is untrusted."""
        return self.carries | (UNTRUSTED_BIT if self.trigger in _FROM_OUTSIDE else NO_BITS)

    def record(
        self, event_id: str, run_id: str | None, *, waits_for: str | None = None, dropped: JsonObject | None = None
    ) -> bytes:
        """The data of `event.received`: enough to run it again after a restart.

        `waits_for` is the agent of an event whose run is not decided yet. `dropped` is why it never gets a run.
        """
        body: dict[str, Any] = {"event_id": event_id, "run_id": run_id}
        if waits_for is not None:
            body |= {"dispatch": "pending", "agent_id": waits_for}
        if dropped is not None:
            body |= {"dispatch": "dropped", "reason": dropped}
        if self.flow:
            body["flow"] = self.flow
        for name in _RECORDED:
            value = getattr(self.scope if name in _IN_SCOPE else self, name)
            if value and value != _NO_FACTS:
                body[name] = value
        return msgspec.json.encode(body)

    def file_records(self, event_id: str, run_id: str | None, created_ms: int) -> list[NewRecord]:
        """The records of its files, for the commit of the event."""
        return [
            msgspec.structs.replace(file, flow=file.flow | self.flow).record(
                created_ms, event_id=event_id, run_id=run_id
            )
            for file in self.files
        ]

    @staticmethod
    def from_record(data: bytes, workspace: str) -> "tuple[str, NewEvent]":
        """The event id and the event of an `event.received` record."""
        body: dict[str, Any] = msgspec.json.decode(data)
        scope = {name: body.pop(name) for name in _IN_SCOPE & body.keys()}
        event_id = str(body["event_id"])
        for name in ("event_id", "run_id", "dispatch", "agent_id", "reason", "flow"):
            body.pop(name, None)
        for name in ("contents", "attachments"):
            body[name] = tuple(body.get(name, ()))
        if "raw" in body:
            body["raw"] = RawPayload(**body["raw"])
        if "reply" in body:
            body["reply"] = ReplyRoute(**body["reply"])
        if "details" in body:
            body["details"] = EventDetails(**body["details"])
        if "facts" in body:
            body["facts"] = msgspec.convert(body["facts"], MessageFacts)
        return event_id, NewEvent(**body, scope=Scope(**scope, workspace=workspace), known=True)


_RECORDED: Final = (
    *("source", "source_id", "event_type", "trigger", "text", "contents", "attachments"),
    *("conversation", "thread", "bot", "actor_type", "actor_id", "actor_name", "subject_type", "subject_id"),
    *(
        "surface",
        "event_ms",
        "data",
        "source_event_type",
        "raw",
        "reply",
        "details",
        "facts",
        "extra",
        "caller",
        "traceparent",
        "carries",
    ),
)
"""The fields of the record, in its order. The workspace is a column of the record."""


def is_own_source(source: str) -> bool:
    """Whether the source is reserved. An outside event under such a source could take the id of a host event or of
    another caller's message."""
    return source == API_SOURCE or source.startswith((OWN_SOURCE, RUN_SOURCE, f"{API_SOURCE}/"))


def _check_structure(data: JsonObject, beside: int) -> None:
    """Refuse data that would not fit into a frame to a worker, before it becomes a run. `beside` is the maximum of JSON
    values in the input."""
    if beside > EVENT_DATA_VALUES:
        most = EVENT_DATA_VALUES // _VALUES_OF_ELEMENT
        raise InvalidRequest(
            f"the input has more than {most} elements",
            reason="too_many_elements",
            hint="send it in several messages",
            field="input.contents",
            limit=most,
        )
    values, level = beside, list[JsonValue]([data])
    for _ in range(EVENT_DATA_DEPTH):
        values += len(level)
        inner: list[JsonValue] = []
        for value in level:
            if isinstance(value, dict):
                inner.extend(value.values())
            elif isinstance(value, list):
                inner.extend(value)
        level = inner
        if values + len(level) > EVENT_DATA_VALUES:
            raise InvalidRequest(
                f"data and input together have more than {EVENT_DATA_VALUES} values",
                reason="too_many_values",
                hint="send a reference instead",
                field="data",
                limit=EVENT_DATA_VALUES,
            )
        if not level:
            return
    raise InvalidRequest(
        f"data is nested deeper than {EVENT_DATA_DEPTH}",
        reason="data_too_deep",
        hint="flatten it, or send a reference instead",
        field="data",
        limit=EVENT_DATA_DEPTH,
    )
