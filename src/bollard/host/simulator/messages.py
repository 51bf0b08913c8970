"""Where every accepted message is, once everything has settled: in one place, never in none and never in two (§9).

A message has a run of its own, or it was acknowledged in the run that claimed it, or it was dropped because its user
stopped that run. No other event is claimed, and nothing by a run that may not pull any more. Read from the log alone;
the projection must say the same. Changes nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bollard.host.grants.revocation import Revocation
from bollard.host.log.records import data_of
from bollard.host.simulator.ledger import all_records
from bollard.host.store.boundary import Store
from bollard.host.store.rows import EventRow, RecordRow
from bollard.protocol import JsonObject

__all__ = ["message_problems"]


@dataclass(slots=True)
class _Message:
    """What the log says of one event, in order."""

    workspace: str
    event_id: str
    kind: str = ""
    runs: list[str] = field(default_factory=list[str])
    claimed_by: str | None = None
    """The run whose claim is open."""
    pulled: bool = False
    """Whether that run's runner has it."""
    acknowledged_by: list[str] = field(default_factory=list[str])
    dropped: str | None = None
    """The reason of a drop that was for good."""
    problems: list[str] = field(default_factory=list[str])

    def created(self, run_id: str) -> None:
        if self.claimed_by is not None:
            self.problems.append(f"it got {run_id} while {self.claimed_by} had claimed it")
        self.runs.append(run_id)

    def steered(self, kind: str, run_id: str, data: JsonObject) -> None:
        if kind == "steering.queued":
            if self.claimed_by == run_id and self.pulled:  # its runner gave the pull up: it waits again
                self.pulled = False
                return
            if self.kind != "message.received":
                self.problems.append(f"{run_id} claimed it, and it is {self.kind}")
            if self.claimed_by is not None or self.runs or self.acknowledged_by or self.dropped:
                self.problems.append(f"{run_id} claimed it, and it was in {self._place()} already")
            self.claimed_by = run_id
            return
        if self.claimed_by != run_id:
            self.problems.append(f"{run_id} wrote {kind} of it, and {self.claimed_by} had claimed it")
        if kind == "steering.acknowledged":
            self.acknowledged_by.append(run_id)
        elif kind == "steering.dropped" and data.get("redispatch") is not True:
            self.dropped = str(data.get("reason"))
        self.pulled = kind == "steering.injected"
        if not self.pulled:
            self.claimed_by = None

    def _place(self) -> str:
        return ", ".join([*self.runs, *self.acknowledged_by, *([self.dropped] if self.dropped else [])]) or "a run"

    def judge(self, row: EventRow | None) -> Iterator[str]:
        yield from self.problems
        if self.claimed_by is not None:
            yield f"{self.claimed_by} claimed it and never said what became of it"
        places = len(self.runs) + len(self.acknowledged_by) + (self.dropped is not None)
        if places != 1:
            yield f"it is in {places} places: {self._place() if places else 'nowhere'}"
        if self.dropped not in (None, "cancelled"):
            yield f"it was dropped for good because of {self.dropped}"
        if row is None:
            yield "it has records and no row"
        elif places == 1 and (row.dispatch, row.run_id) != self._row(row):
            yield f"its row says {row.dispatch} and {row.run_id}, the log says {self._row(row)}"

    def _row(self, row: EventRow) -> tuple[str, str | None]:
        if self.runs:
            return "run", self.runs[0]
        return ("steering", self.acknowledged_by[0]) if self.acknowledged_by else ("dropped", row.run_id)


def message_problems(store: Store) -> list[str]:
    """What is wrong with where messages are."""
    messages: dict[tuple[str, str], _Message] = {}
    deaf: set[str] = set()
    for record in all_records(store):
        if record.type == "grant.revoked" and _takes_pulling(data_of(record)):
            deaf.add(record.run_id or "")
        _read(record, messages, deaf)
    return [
        f"event {message.event_id}: {problem}"
        for message in messages.values()
        for problem in message.judge(store.event(message.workspace, message.event_id))
    ]


def _takes_pulling(data: JsonObject) -> bool:
    revoked = Revocation.from_data({name: value for name, value in data.items() if name != "by"})
    return revoked.takes("steering.pull", "steering", None)


def _read(record: RecordRow, messages: dict[tuple[str, str], _Message], deaf: set[str]) -> None:
    """`deaf` are the runs that may not pull any more."""
    if record.type not in ("event.received", "run.created") and not record.type.startswith("steering."):
        return
    data = data_of(record)
    key = (record.workspace, str(data["event_id"]))
    message = messages.setdefault(key, _Message(*key))
    match record.type:
        case "event.received":
            message.kind = str(data["event_type"])
        case "run.created":
            message.created(record.run_id or "")
        case kind:
            if kind == "steering.queued" and record.run_id in deaf and message.claimed_by != record.run_id:
                message.problems.append(f"{record.run_id} claimed it after its pulling was revoked")
            message.steered(kind, record.run_id or "", data)
