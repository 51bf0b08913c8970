"""A run as a pure state machine: `step(state, record)` returns the next state and the effects to carry out.

Live runs, recovery, the simulator and replay use this one function. Effects are data. Nothing here waits, writes or
reads the clock.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from bollard.host.limits import DRAFT_CHARACTERS, DRAFTS_CHARACTERS, DRAFTS_OF_RUN
from bollard.host.log.records import FLOW_RECORDS, flow_in
from bollard.host.reason import NO_PROBLEM, Why, why
from bollard.protocol import TERMINAL_STATUSES, JsonObject, JsonValue, RunStatus, status_of_failure

Claim = Literal["queued", "injected"]
"""A message waits for the runner, or the runner has pulled it."""


class MessageDraft(msgspec.Struct, frozen=True):
    """The text of a message of which only deltas have come, newest part first."""

    text: str
    before: "MessageDraft | None" = None
    kept: int = 0
    """Characters of this part and all earlier ones."""
    lost: int = 0
    """Characters that came after the limit was reached."""

    def more(self, text: str, room: int) -> "MessageDraft":
        """Append a piece, of which at most `room` characters are kept. Small parts are merged, so that their number
        stays small."""
        kept = text[: max(0, min(room, DRAFT_CHARACTERS - self.kept))]
        lost = self.lost + len(text) - len(kept)
        if not kept:
            return replace(self, lost=lost)
        piece, before = kept, self
        while before is not None and len(before.text) <= len(piece):
            piece, before = before.text + piece, before.before
        return MessageDraft(piece, before, self.kept + len(kept), lost)

    def whole(self) -> str:
        parts: list[str] = []
        draft: MessageDraft | None = self
        while draft is not None:
            parts.append(draft.text)
            draft = draft.before
        return "".join(reversed(parts))


_NOTHING: Final = MessageDraft("")


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run that determines its next steps."""

    on_message: bool
    status: RunStatus = "queued"
    seq: int = 0
    spoke: bool = False
    """Whether any delta or message came."""
    completed: int = 0
    """Completed messages."""
    drafts: Mapping[str, MessageDraft] = {}
    """Messages of which only deltas have come."""
    drafted: int = 0
    """Characters of their texts and ids."""
    crowded: bool = False
    """Whether the drafts exceeded their limits. Such a run is ended."""
    terminal: str | None = None
    """The type of the worker's terminal result."""
    closing: JsonObject | None = None
    """The message of `run.completed`, if the run sent no other."""
    failure: tuple[str, str] | None = None
    """Code and sentence of the worker's `run.failed`."""
    cancel: str | None = None
    """Why the run is being stopped."""
    superseded: bool = False
    """Whether a newer message replaces the run. Nobody cancelled it."""
    claims: Mapping[str, Claim] = {}
    """Steering messages of this run by event, oldest first."""
    acting: Mapping[str, JsonObject] = {}
    """Open calls by id, with the data for the record of their end."""
    asking: Mapping[str, JsonObject] = {}
    """Open questions by id, with the data for the record of their end."""
    redispatched: tuple[str, ...] = ()
    """Steering messages that it did not answer. Each gets a run of its own."""
    flow: int = 0
    """Bits of `Flow` according to the records. Bits are only added."""
    usage: JsonValue = None
    """The accumulated usage of its model calls, from the newest record of one."""

    @property
    def over(self) -> bool:
        return self.status in TERMINAL_STATUSES


class Fact(msgspec.Struct, frozen=True):
    """One record as the machine sees it. `texts` are the deltas of one batch, by message."""

    type: str
    data: JsonObject
    seq: int
    texts: tuple[tuple[str, str], ...] = ()


# --- effects ---


class StartWorker(msgspec.Struct, frozen=True):
    """Send `run/start`."""


class StartTimers(msgspec.Struct, frozen=True):
    """Start the deadline and the idle limit."""


class PauseTimers(msgspec.Struct, frozen=True):
    """Stop the clocks: the run waits for a person."""


class StopWorker(msgspec.Struct, frozen=True):
    """Send `run/cancel` with this reason, and end the run when the grace is over."""

    reason: str


class AwaitStart(msgspec.Struct, frozen=True):
    """The terminal result is there: end the run when the worker answers `run/start`."""


class Release(msgspec.Struct, frozen=True):
    """The run is over: free its slot and notify its readers."""


Effect = StartWorker | StartTimers | PauseTimers | StopWorker | AwaitStart | Release


def step(state: RunState, fact: Fact) -> tuple[RunState, tuple[Effect, ...]]:
    """The state after a record, and its effects. A run that is over does not change."""
    if state.over:
        return state, ()
    after = replace(state, seq=fact.seq, flow=_flow_after(state, fact))
    match fact.type:
        case "message.delta":
            return _spoken(after, fact), ()
        case "message.completed":
            return _completed(after, fact), ()
        case "run.claimed":
            return replace(after, status="dispatching"), (StartWorker(),)
        case "run.started":
            return replace(after, status="running"), (StartTimers(),)
        case "run.waiting":
            return replace(after, status="waiting"), (PauseTimers(),)
        case "run.resumed":
            return replace(after, status="running"), (StartTimers(),)
        case "run.cancelled":
            return _cancelled(after, fact)
        case "steering.queued" | "steering.injected" | "steering.acknowledged" | "steering.dropped":
            return _steered(after, fact), ()
        case "run.completed" | "run.failed":
            return _terminal(after, fact)
        case "run.ended":
            return _ended(after, fact)
        case _:
            return _acted(after, fact), ()


def _flow_after(state: RunState, fact: Fact) -> int:
    has_flow = fact.type in FLOW_RECORDS and "flow" in fact.data
    return state.flow | flow_in(fact.data) if has_flow else state.flow


def _spoken(state: RunState, fact: Fact) -> RunState:
    drafts, drafted, crowded = dict(state.drafts), state.drafted, state.crowded
    for message_id, text in fact.texts:
        draft = drafts.get(message_id)
        if draft is None:
            if len(drafts) >= DRAFTS_OF_RUN or drafted + len(message_id) > DRAFTS_CHARACTERS:
                crowded = True
                continue
            draft = _NOTHING
            drafted += len(message_id)
        room = DRAFTS_CHARACTERS - drafted
        crowded = crowded or min(len(text), DRAFT_CHARACTERS - draft.kept) > room
        drafts[message_id] = longer = draft.more(text, room)
        drafted += longer.kept - draft.kept
    return replace(state, drafts=drafts, drafted=drafted, crowded=crowded, spoke=True)


def _completed(state: RunState, fact: Fact) -> RunState:
    found = fact.data.get("message_id")
    message_id = found if isinstance(found, str) else ""
    drafts, drafted = dict(state.drafts), state.drafted
    if (draft := drafts.pop(message_id, None)) is not None:
        drafted -= draft.kept + len(message_id)
    return replace(state, drafts=drafts, drafted=drafted, spoke=True, completed=state.completed + 1)


def _steered(state: RunState, fact: Fact) -> RunState:
    claims, event_id = dict(state.claims), str(fact.data.get("event_id"))
    match fact.type:
        case "steering.queued":
            claims[event_id] = "queued"
        case "steering.injected":
            claims[event_id] = "injected"
        case _:
            claims.pop(event_id, None)
    again = (event_id,) if fact.data.get("redispatch") is True else ()
    return replace(state, claims=claims, redispatched=state.redispatched + again)


_KEPT_OF_A_CALL: Final = ("capability", "flow")
_ACTED: Final = frozenset({"action.started", "action.completed", "action.failed", "action.rejected", "action.unknown"})


def _acted(state: RunState, fact: Fact) -> RunState:
    """Track calls and questions that begin or end. Other records change nothing."""
    if fact.type == "model.called":
        return replace(state, usage=fact.data.get("run_usage", state.usage))
    if fact.type.startswith("question."):
        return _asked(state, fact)
    if fact.type not in _ACTED:
        return state
    acting, call_id = dict(state.acting), str(fact.data.get("call_id"))
    if fact.type == "action.started":
        acting[call_id] = {name: fact.data[name] for name in _KEPT_OF_A_CALL if name in fact.data}
    else:
        acting.pop(call_id, None)
    return replace(state, acting=acting)


_KEPT_OF_A_QUESTION: Final = ("call_id", "interaction")


def _asked(state: RunState, fact: Fact) -> RunState:
    asking, question_id = dict(state.asking), str(fact.data.get("question_id"))
    if fact.type == "question.asked":
        asking[question_id] = {name: fact.data[name] for name in _KEPT_OF_A_QUESTION if name in fact.data}
    else:
        asking.pop(question_id, None)
    return replace(state, asking=asking)


def _cancelled(state: RunState, fact: Fact) -> tuple[RunState, tuple[Effect, ...]]:
    reason = fact.data.get("reason")
    if state.cancel is not None:
        return state, ()
    code = reason if isinstance(reason, str) else "cancelled"
    return replace(state, cancel=code, superseded=fact.data.get("superseded") is True), (StopWorker(code),)


def _terminal(state: RunState, fact: Fact) -> tuple[RunState, tuple[Effect, ...]]:
    if state.terminal is not None:
        return state, ()
    after = replace(state, terminal=fact.type)
    if fact.type == "run.failed":
        code, error = fact.data.get("code"), fact.data.get("error")
        known = isinstance(code, str) and isinstance(error, str)
        after = replace(after, failure=(str(code), str(error)) if known else ("runner.error", "the runner failed"))
    elif isinstance(fact.data.get("message"), dict) and state.completed == 0:
        after = replace(after, spoke=True, closing={"message": fact.data["message"]}, drafts={}, drafted=0)
    return after, (AwaitStart(),)


def _ended(state: RunState, fact: Fact) -> tuple[RunState, tuple[Effect, ...]]:
    status = fact.data.get("status")
    ended: RunStatus = "failed"
    match status:
        case "completed" | "failed" | "cancelled" | "timeout":
            ended = status
        case _:
            pass
    return replace(state, status=ended), (Release(),)


# --- the end of a run ---

_CROWDED: Final = why(
    f"more than {DRAFTS_OF_RUN} messages, or more than {DRAFTS_CHARACTERS} characters of them, came as deltas and were"
    " not completed: complete each message with message.completed",
    "run.crowded",
    messages=DRAFTS_OF_RUN,
    characters=DRAFTS_CHARACTERS,
)
_BROKEN: Final = why("the worker broke the protocol", "run.protocol")
_UNFINISHED: Final = why("the worker answered without a terminal result", "run.unfinished")
_REFUSED: Final = why("the worker refused the run", "run.refused")
_OUTPUT_TOO_LARGE: Final = (
    "the run recorded more than run_output_mib allows: write less, or put large content into an artifact"
)
_WORKER_ENDED: Final = "the worker ended while the run was active"

EndCause = Literal["answered", "refused", "lost", "grace", "broken", "no_worker"]
"""Why the host ends a run: the worker answered, refused or vanished, the grace is over, the worker broke the protocol
three times, or there is no worker."""


class Ending(msgspec.Struct, frozen=True, omit_defaults=True):
    """The data of `run.ended`."""

    status: Literal["completed", "failed", "cancelled", "timeout"]
    code: str | None = None
    error: str | None = None
    details: Mapping[str, Any] = {}
    """The type of the error (`problem_type`) and its values, by which a translation is found. Empty if the sentence is
    that of a runner."""

    def data(self) -> JsonObject:
        return msgspec.to_builtins(self)


def ending_of(state: RunState, cause: EndCause, detail: Why = NO_PROBLEM) -> Ending:
    """How a run ends. The reason of a cancellation takes precedence over everything that came after it."""
    if state.cancel is not None:
        return _failed(state.cancel, detail or _why_stopped(state))
    if state.terminal == "run.failed" and state.failure is not None:
        code, error = state.failure
        return _failed(code, Why(error))
    if cause == "broken":
        return _failed("runner.protocol", detail or _BROKEN)
    if state.crowded:
        return _failed("runner.protocol", _CROWDED)
    if state.terminal == "run.completed":
        if state.on_message and not state.spoke:
            return _failed("runner.no_output", Why("the run ended without any output"))
        return Ending("completed")
    match cause:
        case "answered":
            return _failed("runner.protocol", _UNFINISHED)
        case "refused":
            return _failed("runner.protocol", detail or _REFUSED)
        case "lost":
            return _failed("runner.crashed", Why(f"{_WORKER_ENDED}: {detail}" if detail else _WORKER_ENDED))
        case "no_worker":
            return _failed("host.overloaded", detail or Why("no worker was available"))
        case "grace":
            return _failed("runner.timeout", detail or Why("the run did not end in time"))


def _why_stopped(state: RunState) -> Why:
    if state.cancel == "runner.output_too_large":
        return Why(_OUTPUT_TOO_LARGE)
    return _CROWDED if state.crowded and state.cancel == "runner.protocol" else Why("the run was stopped")


def _failed(code: str, error: Why) -> Ending:
    return Ending(status_of_failure(code), code, error.sentence, error.details)


def settled(state: RunState, ending: Ending) -> list[tuple[str, JsonObject]]:
    """The records that close open calls, questions and steering messages at the end of a run, as type and data.

    The outcome of an open call is unknown. An open question expires. A message that a completed run has pulled is
    acknowledged. Every other message is dispatched as a new run, unless a user cancelled this one: then it is dropped.
    A failure that the runner reports, and a newer message that supersedes the run, drop nothing.
    """
    stopped = state.cancel == "cancelled" and not state.superseded
    text = "the run ended before the outcome was known"
    records: list[tuple[str, JsonObject]] = [
        ("action.unknown", {"call_id": call_id, **call, "code": "outcome_unknown", "message": text})
        for call_id, call in state.acting.items()
    ]
    for question_id, question in state.asking.items():
        records.append(("question.expired", {"question_id": question_id, **question, "reason": "run_ended"}))
    for event_id, claim in state.claims.items():
        if claim == "injected" and ending.status == "completed":
            records.append(("steering.acknowledged", {"event_id": event_id}))
            continue
        reason = ending.code or "not_pulled"
        pulled = claim == "injected"
        dropped: JsonObject = {"event_id": event_id, "reason": reason, "redispatch": not stopped, "pulled": pulled}
        records.append(("steering.dropped", dropped))
    return records


def assembled(state: RunState) -> list[JsonObject]:
    """The complete messages that the runner sent only as deltas or in its terminal result. Deltas are not durable."""
    messages: list[JsonObject] = [] if state.closing is None else [state.closing]
    for message_id, draft in state.drafts.items():
        text = draft.whole()
        if not text:
            continue
        body: JsonObject = {"role": "assistant", "content": text}
        if draft.lost:
            body["metadata"] = {"cut_characters": draft.lost}
        message: JsonObject = {"message": body}
        if message_id:
            message["message_id"] = message_id
        messages.append(message)
    return messages


def last_records(state: RunState, ending: Ending, *, redispatch: bool) -> list[tuple[str, JsonObject]]:
    """The records that end a run, as type and data: its messages, the ends of open calls, questions and steering
    messages, and `run.ended`. With `redispatch` the event gets another run."""
    flow: JsonObject = {"flow": state.flow} if state.flow else {}
    again: JsonObject = {"redispatch": True} if redispatch else {}
    records = [("message.completed", message | flow) for message in assembled(state)]
    return [*records, *settled(state, ending), ("run.ended", ending.data() | again)]
