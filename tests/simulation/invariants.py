"""Invariants between runs: the order of a conversation, interruptions, and children that end with their parents.

Read from the log only; changes nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import msgspec
from tests.simulation.ledger import all_records
from tests.simulation.simulated_agents import UNREAD

from bollard.host.agents.lanes import LaneKey, lane_of
from bollard.host.agents.policies import ConcurrencyMode
from bollard.host.grants.revocation import Revocation
from bollard.host.log.records import RunFacts, data_of
from bollard.host.store.rows import EventRow, RecordRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject, limits

_facts: Final = msgspec.json.Decoder(RunFacts).decode
_PROMPT_S: Final = 2.0
"""Time within which an interrupted run is stopped."""
_GRACE_S: Final = limits.CANCEL_GRACE_S + 1.0
"""Time by which a child may outlive its parent: its grace, and the delay of the notification."""
_RECOVERED_S: Final = 5.0
"""The same for one whose end a restarted host had to write."""


@dataclass(slots=True)
class _Life:
    """One run: ids of the records that begin and end it, and their times."""

    facts: RunFacts
    created: RecordRow
    started: RecordRow | None = None
    stopped_ms: int | None = None
    ended: RecordRow | None = None

    def unfinished_at(self, record: RecordRow) -> bool:
        """Whether it ran when this record was written, on the same host."""
        if self.started is None or self.started.id > record.id or self.started.chain != record.chain:
            return False
        return self.ended is None or self.ended.id > record.id


def conversation_problems(store: Store, modes: Mapping[str, ConcurrencyMode]) -> list[str]:
    """Problems between runs. `modes` is the concurrency mode of each agent."""
    lives = _lives(store)
    lanes: dict[LaneKey, list[_Life]] = defaultdict(list)
    for life in lives.values():
        lane = lane_of(life.facts.agent_id, life.facts)
        if lane is not None:
            lanes[lane].append(life)
    problems = [problem for life in lives.values() for problem in _outlived(life, lives)]
    for lane, found in lanes.items():
        mode = modes[lane.agent_id]
        if mode == "parallel":
            continue
        problems.extend(_overlaps(found))
        problems.extend(_overtaken(found))
        if mode == "interrupt":
            problems.extend(_uninterrupted(found))
    return problems


def _lives(store: Store) -> dict[str, _Life]:
    lives: dict[str, _Life] = {}
    for record in all_records(store):
        if record.run_id is None:
            continue
        match record.type:
            case "run.created":
                facts = _facts(record.data or b"{}")
                lives[facts.run_id] = _Life(facts, record)
            case "run.started":
                lives[record.run_id].started = record
            case "run.cancelled":
                life = lives[record.run_id]
                life.stopped_ms = life.stopped_ms or record.created_ms
            case "run.ended":
                lives[record.run_id].ended = record
            case _:
                pass
    return lives


def _overlaps(lives: Sequence[_Life]) -> Iterator[str]:
    for life in lives:
        for other in lives:
            if life.started is not None and other is not life and other.unfinished_at(life.started):
                yield f"{life.facts.run_id} started beside {other.facts.run_id}, which was active in its conversation"


def _overtaken(lives: Sequence[_Life]) -> Iterator[str]:
    """Runs start in the order of their messages, which is the order of their ids."""
    started = sorted((life for life in lives if life.started is not None), key=lambda life: life.facts.event_id)
    for before, behind in pairwise(started):
        if before.started is not None and behind.started is not None and behind.started.id < before.started.id:
            yield f"{behind.facts.run_id} came after {before.facts.run_id} and started before it"


def _uninterrupted(lives: Sequence[_Life]) -> Iterator[str]:
    """An active run is stopped by a newer message. Other events wait for it."""
    for life in lives:
        for other in lives:
            if other is life or not life.facts.on_message or not other.unfinished_at(life.created):
                continue
            until_ms = life.created.created_ms + round(_PROMPT_S * 1000)
            ended_ms = other.ended.created_ms if other.ended is not None else None
            if all(at_ms is None or at_ms > until_ms for at_ms in (other.stopped_ms, ended_ms)):
                yield f"{other.facts.run_id} went on although {life.facts.run_id} interrupted it"


def _outlived(life: _Life, lives: Mapping[str, _Life]) -> Iterator[str]:
    parent = None if life.facts.parent_run_id is None else lives[life.facts.parent_run_id]
    if parent is None or parent.ended is None or life.ended is None:
        return
    over_ms = life.ended.created_ms - parent.ended.created_ms
    recovered = life.ended.chain != life.created.chain
    if over_ms > 1000 * (_RECOVERED_S + _GRACE_S if recovered else _GRACE_S):
        yield f"{life.facts.run_id} ended {over_ms} ms after {parent.facts.run_id}, which had called it"


# Where every accepted message is, once everything has settled: in one place, never in none and never in two (§9).
#
# A message has a run of its own, or it was acknowledged in the run that claimed it, or it was dropped because its user
# stopped that run. No other event is claimed, and nothing by a run that may not pull any more. Read from the log
# alone; the projection must say the same. Changes nothing.


@dataclass(slots=True)
class _Message:
    """The log records about one event, in order."""

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
    """Problems with the places of messages."""
    messages: dict[tuple[str, str], _Message] = {}
    deaf: set[str] = set()
    for record in all_records(store):
        if record.type == "grant.revoked" and _takes_pulling(data_of(record)):
            deaf.add(record.run_id or "")
        _read_message(record, messages, deaf)
    return [
        f"event {message.event_id}: {problem}"
        for message in messages.values()
        for problem in message.judge(store.event(message.workspace, message.event_id))
    ]


def _takes_pulling(data: JsonObject) -> bool:
    revoked = Revocation.from_data({name: value for name, value in data.items() if name != "by"})
    return revoked.takes("steering.pull", "steering", None)


def _read_message(record: RecordRow, messages: dict[tuple[str, str], _Message], deaf: set[str]) -> None:
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


# The messages that runners really pulled, compared with the log (§9).
#
# An acknowledged message was read by the run that acknowledged it; none is read twice, each run reads its messages in
# arrival order, and it gets only messages of its permitted actors, and no more than it may hold. No message is dropped
# permanently unless a client stopped the run. Changes nothing.


_Actor = tuple[object, object]


@dataclass(slots=True)
class _Run:
    """The messages of one run, from its log."""

    facts: RunFacts
    claimed: list[str] = field(default_factory=list[str])
    """In the order in which they came."""
    waiting: set[str] = field(default_factory=set[str])
    given_back: int = 0
    """Messages whose pull was given up. They may wait beside others that came meanwhile."""
    acknowledged: list[str] = field(default_factory=list[str])
    stopped: bool = False
    """Whether a client stopped it."""
    problems: list[str] = field(default_factory=list[str])

    def steered(self, kind: str, data: JsonObject, actor: _Actor, *, anyone: bool) -> None:
        event_id = str(data["event_id"])
        self.waiting.discard(event_id)
        if kind == "steering.acknowledged":
            self.acknowledged.append(event_id)
        if kind == "steering.dropped" and data["redispatch"] is not True and not self.stopped:
            self.problems.append(f"it dropped {event_id} for good, and nobody had stopped it")
        if kind != "steering.queued":
            return
        self.waiting.add(event_id)
        if event_id in self.claimed:
            self.given_back += 1
            return
        self.claimed.append(event_id)
        if len(self.waiting) - self.given_back > UNREAD:
            self.problems.append(f"it was given {event_id} while {len(self.waiting) - 1} waited already")
        if not anyone and (actor != (self.facts.actor_type, self.facts.actor_id) or actor[1] is None):
            self.problems.append(f"{actor} steered it with {event_id}, and {self.facts.actor_id} had started it")

    def judge(self, got: Sequence[str]) -> Iterator[str]:
        """`got` are the messages that its runner read, in that order."""
        yield from self.problems
        places = {event_id: place for place, event_id in enumerate(self.claimed)}
        read = [places[event_id] for event_id in got if event_id in places]
        yield from (f"its runner read {each}, which it was never given" for each in got if each not in places)
        yield from (
            f"it acknowledged {each}, which its runner never got" for each in self.acknowledged if each not in got
        )
        if read != sorted(read):
            yield f"its runner read its messages out of order: {read}"


def pull_problems(store: Store, got: Mapping[str, Sequence[str]], open_agents: Container[str]) -> list[str]:
    """Problems with the pulled messages. `got` are the events that each run's runner pulled; every actor may steer runs
    of the `open_agents`."""
    runs: dict[str, _Run] = {}
    actors: dict[tuple[str, str], _Actor] = {}
    for record in all_records(store):
        _read_pull(record, runs, actors, open_agents)
    times = Counter(event_id for events in got.values() for event_id in events)
    problems = [f"event {event_id} was pulled {number} times" for event_id, number in times.items() if number > 1]
    for run_id, run in runs.items():
        problems += [f"{run_id}: {problem}" for problem in run.judge(got.get(run_id, ()))]
    return problems


def _read_pull(
    record: RecordRow, runs: dict[str, _Run], actors: dict[tuple[str, str], _Actor], open_agents: Container[str]
) -> None:
    if record.type == "event.received":
        event = data_of(record)
        actors[record.workspace, str(event["event_id"])] = (event.get("actor_type"), event.get("actor_id"))
    elif record.type == "run.created":
        facts = _facts(record.data or b"{}")
        runs[facts.run_id] = _Run(facts)
    elif record.type.startswith("steering.") and record.run_id is not None:
        data, run = data_of(record), runs[record.run_id]
        actor = actors[record.workspace, str(data["event_id"])]
        run.steered(record.type, data, actor, anyone=run.facts.agent_id in open_agents)
    elif record.type == "run.cancelled" and record.run_id is not None:
        data = data_of(record)
        runs[record.run_id].stopped |= data["reason"] == "cancelled" and data.get("superseded") is not True
