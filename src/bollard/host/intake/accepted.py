"""What the sender of an event is told, and what it would be told."""

import msgspec

from bollard.host.agents.admission import Admission
from bollard.host.agents.gates import Refused
from bollard.host.agents.routing import Resolution
from bollard.host.errors import BudgetExceeded, Forbidden, HostError, Overloaded
from bollard.host.grants.grant import Grant
from bollard.host.log.records import data_of
from bollard.host.runs.hub import Subscription
from bollard.host.store.boundary import Store
from bollard.host.store.rows import EventRow
from bollard.protocol import JsonObject, JsonValue

__all__ = ["Accepted", "NotTaken", "Preview", "error_of", "first_outcome", "not_taken"]


class NotTaken(msgspec.Struct, frozen=True, kw_only=True):
    """Why an event led to no run, for good. It is on disk with its event: whoever sends it again is told the same."""

    code: str
    message: str
    hint: str = ""

    def to_wire(self) -> JsonObject:
        return {"code": self.code, "message": self.message, "hint": self.hint}


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """An event is on disk. `first` is false when it was accepted before."""

    event_id: str
    run_id: str | None
    """The run that it has, or that it was given to."""
    first: bool
    steered: bool = False
    """Whether it went into a run that was active already."""
    place: tuple[int, int] | None = None
    """Where in that run it stands, as epoch and number."""
    subscription: Subscription | None = None
    """A reader that misses nothing, where one was asked for and the run is new."""
    reason: NotTaken | None = None
    """Why there is no run and will be none."""


def first_outcome(row: EventRow, reason: NotTaken | None = None) -> Accepted:
    """The same event again gets the answer it got first."""
    steered = row.dispatch == "steering"
    return Accepted(event_id=row.event_id, run_id=row.run_id, first=False, steered=steered, reason=reason)


def not_taken(store: Store, row: EventRow) -> NotTaken | None:
    """Why an event has no run and will have none; nothing where it has one, or may get one. Blocks."""
    if row.dispatch != "dropped" or row.run_id is not None:
        return None
    record = next(iter(store.records(row.record_id - 1, 1)), None)
    reason = None if record is None else data_of(record).get("reason")
    if not isinstance(reason, dict):
        return _later(None if record is None else data_of(record).get("agent_id"))
    return NotTaken(**{name: str(reason.get(name, "")) for name in ("code", "message", "hint")})


def _later(agent_id: JsonValue) -> NotTaken:
    """Of an event that waited for a run of this agent and got none, or whose record retention dropped."""
    if not isinstance(agent_id, str):
        return NotTaken(code="not_taken", message="nobody took this event; why is not kept any more")
    message = f"it waited for a run of agent {agent_id!r} and got none"
    return NotTaken(code="not_taken", message=message, hint="`bollard audit show --type event.dropped` says why")


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What would become of an event. The rest is absent where no agent was found."""

    resolution: Resolution
    decision: Admission | None = None
    refused: HostError | None = None
    """Why it would not be taken whatever is decided about it; asking costs no turn of a rate."""
    grant: Grant | None = None


def error_of(refused: Refused) -> HostError:
    """A closed gate as the sender is told."""
    kinds: dict[str, type[HostError]] = {
        "unauthorized": Forbidden,
        "rate_limited": Overloaded,
        "budget_exceeded": BudgetExceeded,
    }
    wait = {} if refused.retry_after_s is None else {"retry_after_s": round(refused.retry_after_s, 3)}
    return kinds[refused.code](refused.sentence, hint=refused.hint, **wait)
