"""One event as the host takes it: the parts of a CloudEvent that a run needs, checked once at the edge."""

from dataclasses import InitVar, dataclass, field, fields
from typing import Any, Final

import msgspec

from bollard.host.agents.policies import DeliveryPolicy
from bollard.host.errors import InvalidRequest
from bollard.host.limits import (
    EVENT_DATA_BYTES,
    EVENT_DATA_DEPTH,
    EVENT_DATA_VALUES,
    EVENT_NAME_CHARACTERS,
    INPUT_TEXT_BYTES,
)
from bollard.host.log.records import NO_BITS, UNTRUSTED_BIT, DeliverTo
from bollard.host.store.keys import key_problem
from bollard.host.telemetry.tracer import parse_traceparent
from bollard.protocol import JsonObject, JsonValue, TriggerSource

# Where an answer goes: what a channel says of itself when an event comes through it, and what the agent's policy makes
# of that. Pure; sending is not done here.


_READ_ELSEWHERE: Final[frozenset[TriggerSource]] = frozenset({"api", "webui"})
"""Whoever triggers a run in this way reads its stream: the agent's own target is not for them."""


class ReplyRoute(msgspec.Struct, frozen=True, kw_only=True):
    """The channel that an event came through, as it was then. Kept with the event: a run never looks a channel up."""

    channel: str
    target: str
    """Whom or where the channel should send an answer; the channel's own word for it."""
    supports_streaming: bool = False
    supports_edit: bool = False
    supports_reaction: bool = False
    max_message_size: int | None = None


def deliver_to(reply: ReplyRoute | None, trigger: TriggerSource, policy: DeliveryPolicy) -> DeliverTo | None:
    """Where the messages of a run go, if they go anywhere but to those who read it."""
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
    if policy.target is None or trigger in _READ_ELSEWHERE:
        return None
    channel, _, target = policy.target.partition(":")
    return DeliverTo(channel=channel, target=target, streaming=policy.streaming, max_message_size=size)


def delivery_context(
    reply: ReplyRoute | None, surface: str, policy: DeliveryPolicy, goes_to: DeliverTo | None
) -> JsonObject:
    """What a runner is told of it. Absent is written as absent."""
    told: JsonObject = {"surface": surface, "supports_streaming": policy.streaming}
    if reply is not None:
        told["supports_streaming"] = policy.streaming and reply.supports_streaming
        told["supports_edit"] = reply.supports_edit
        told["supports_reaction"] = reply.supports_reaction
    if goes_to is not None:
        told["reply_target"] = {"channel": goes_to.channel, "target": goes_to.target}
        if goes_to.max_message_size is not None:
            told["max_message_size"] = goes_to.max_message_size
    return told


OWN_SOURCE: Final = "bollard:"
"""How sources of events begin that the host raises itself. Nobody else may use one."""
RUN_SOURCE: Final = "run:"
"""How the source of a call begins that a run makes of another agent."""
API_SOURCE: Final = "api"
"""The source of what is said through the API; behind a slash whose ids they are, where callers choose them."""
OWN_EVENTS: Final = frozenset({"approval.decided"})
"""Types of events that only the host raises."""

_SAID_BY_PEOPLE: Final = frozenset[TriggerSource]({"platform", "webui", "api"})
_FROM_OUTSIDE: Final = frozenset[TriggerSource]({"platform", "webhook", "host_adapter"})
_VALUES_OF_ELEMENT: Final = 10
"""JSON values that an element of the input, or an attachment, has at most."""
_WHERE_AND_WHO: Final = ("bot", "conversation", "thread", "actor_id", "subject_id", "source_event_type")
_SHOWN: Final = ("actor_type", "actor_name", "subject_type")


class RawPayload(msgspec.Struct, frozen=True, kw_only=True):
    """What the sender sent, where it is too large to be data, or no JSON: an artifact whose content is a blob."""

    artifact_id: str
    sha256: str
    size_bytes: int
    mime_type: str | None = None
    expires_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """`source` and `source_id` are the dedupe key: the same event again gets its first outcome."""

    source: str
    source_id: str
    event_type: str
    trigger: TriggerSource = "api"
    text: str | None = None
    contents: tuple[JsonObject, ...] = ()
    attachments: tuple[JsonObject, ...] = ()
    """Artifacts of its conversation that belong to it, each as an `ArtifactRef`."""
    conversation: str | None = None
    thread: str | None = None
    bot: str | None = None
    actor_type: str | None = None
    actor_id: str | None = None
    actor_name: str | None = None
    subject_type: str | None = None
    subject_id: str | None = None
    surface: str = "api"
    event_ms: int | None = None
    data: JsonObject = field(default_factory=dict[str, JsonValue])
    source_event_type: str | None = None
    """What the sender itself calls it, where that is not the stable name."""
    raw: RawPayload | None = None
    reply: ReplyRoute | None = None
    """The channel that it came through, if it did."""
    extra: JsonObject | None = None
    """One-off metadata of the way it came, for the runner: never history, tools or grants."""
    caller: str | None = None
    """Who brought it: the name of the API's caller, or of the channel; `None` for what the host raises itself."""
    traceparent: str | None = None
    """The span that led to it, by W3C trace context; what is not well-formed counts as nothing."""
    carries: int = NO_BITS
    """What the run had touched that it comes from, where it comes from one: bits of `Flow`."""
    known: InitVar[bool] = False
    """Its names are from the log, and were taken when other rules held."""

    def __post_init__(self, known: bool) -> None:
        if not known:
            self._check_names()
        for name in _WHERE_AND_WHO:
            if getattr(self, name) == "":  # nobody and nowhere: nothing is shared by all who say nothing
                object.__setattr__(self, name, None)
        if self.traceparent is not None:
            parsed = parse_traceparent(self.traceparent)
            object.__setattr__(self, "traceparent", None if parsed is None else parsed.traceparent)
        if self.text is not None and len(self.text.encode("utf-8", "replace")) > INPUT_TEXT_BYTES:
            raise InvalidRequest(
                f"the text is longer than {INPUT_TEXT_BYTES} bytes", hint="send it in several messages", field="text"
            )
        data = msgspec.json.encode(self.data)
        if len(data) > EVENT_DATA_BYTES:
            raise InvalidRequest(
                f"data is larger than {EVENT_DATA_BYTES} bytes", hint="send a reference instead", field="data"
            )
        # Counted on the bytes first: only what may be too much is looked at closely.
        beside = 0 if known else _VALUES_OF_ELEMENT * (len(self.contents) + len(self.attachments))
        many = data.count(b",") + beside > EVENT_DATA_VALUES // 2
        if many or data.count(b"{") + data.count(b"[") > EVENT_DATA_DEPTH:
            _refuse_unwieldy(self.data, beside)

    def _check_names(self) -> None:
        """One that a store keeps otherwise than it came is refused: two of them could not be told apart any more."""
        for name in ("source", "source_id", "event_type"):
            value = getattr(self, name)
            if not value or len(value) > EVENT_NAME_CHARACTERS:
                problem = f"{name} is empty or longer than {EVENT_NAME_CHARACTERS} characters"
                raise InvalidRequest(problem, hint="name the event", field=name)
            if (problem := key_problem(value)) is not None:
                raise InvalidRequest(f"{name} {problem}", hint="give the event another name", field=name)
        for name in (*_WHERE_AND_WHO, *_SHOWN):
            value = getattr(self, name) or ""
            problem = key_problem(value)
            if len(value) > EVENT_NAME_CHARACTERS:
                problem = f"is longer than {EVENT_NAME_CHARACTERS} characters"
            if problem is not None:
                raise InvalidRequest(f"{name} {problem}", hint="send the platform's own id of it", field=name)

    @property
    def is_message(self) -> bool:
        return self.event_type == "message.received"

    @property
    def attended(self) -> bool:
        """Whether a person said it, who may be asked back."""
        return self.is_message and self.trigger in _SAID_BY_PEOPLE

    @property
    def flow(self) -> int:
        """What comes with it, as bits of `Flow`: nobody vouches for what a platform or a webhook brings."""
        return self.carries | (UNTRUSTED_BIT if self.trigger in _FROM_OUTSIDE else NO_BITS)

    def record(
        self, event_id: str, run_id: str | None, *, waits_for: str | None = None, dropped: JsonObject | None = None
    ) -> bytes:
        """The data of `event.received`: enough to run it again after a restart.

        `waits_for` is the agent that will have a run for it, where that is not decided yet; `dropped` is why it will
        never have one.
        """
        body: dict[str, Any] = {"event_id": event_id, "run_id": run_id}
        if waits_for is not None:
            body |= {"dispatch": "pending", "agent_id": waits_for}
        if dropped is not None:
            body |= {"dispatch": "dropped", "reason": dropped}
        if self.flow:
            body["flow"] = self.flow
        for name in _FIELDS:
            value = getattr(self, name)
            if value:
                body[name] = value
        return msgspec.json.encode(body)

    @staticmethod
    def from_record(data: bytes) -> "tuple[str, NewEvent]":
        """The event's id and the event, read back."""
        body: dict[str, Any] = msgspec.json.decode(data)
        event_id = str(body["event_id"])
        for name in ("event_id", "run_id", "dispatch", "agent_id", "reason", "flow"):
            body.pop(name, None)
        for name in ("contents", "attachments"):
            body[name] = tuple(body.get(name, ()))
        if "raw" in body:
            body["raw"] = RawPayload(**body["raw"])
        if "reply" in body:
            body["reply"] = ReplyRoute(**body["reply"])
        return event_id, NewEvent(**body, known=True)


_FIELDS: Final = tuple(item.name for item in fields(NewEvent))


def is_own_source(source: str) -> bool:
    """Whether ids of this source are given by the host, or by callers each for themselves: an event that came under
    one from elsewhere would take the place of theirs."""
    return source == API_SOURCE or source.startswith((OWN_SOURCE, RUN_SOURCE, f"{API_SOURCE}/"))


def _refuse_unwieldy(data: JsonObject, beside: int) -> None:
    """What the channel to a worker would not take, with the request around it, is refused before it becomes a run.
    `beside` is how many values the input has at most."""
    if beside > EVENT_DATA_VALUES:
        message = f"the input has more than {EVENT_DATA_VALUES // _VALUES_OF_ELEMENT} elements"
        raise InvalidRequest(message, hint="send it in several messages", field="input.contents")
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
            message = f"data holds, with the elements of the input, more than {EVENT_DATA_VALUES} values"
            raise InvalidRequest(message, hint="send a reference instead", field="data")
        if not level:
            return
    message = f"data is nested deeper than {EVENT_DATA_DEPTH}"
    raise InvalidRequest(message, hint="flatten it, or send a reference instead", field="data")
