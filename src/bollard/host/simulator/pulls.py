"""What runners really pulled, held against what the log says of it (§9).

A message that is acknowledged was read, by the run that acknowledged it; none is read twice, each run reads what it was
given in the order in which it came, and it is given only what its people may say to it, and no more than it may hold.
Nothing is dropped for good unless somebody stopped the run. Changes nothing.
"""

from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from bollard.host.log.facts import RunFacts
from bollard.host.log.records import data_of
from bollard.host.simulator.ledger import all_records
from bollard.host.simulator.simulated_agents import UNREAD
from bollard.host.store.boundary import Store
from bollard.host.store.rows import RecordRow
from bollard.protocol import JsonObject

__all__ = ["pull_problems"]

_facts: Final = msgspec.json.Decoder(RunFacts).decode
_Actor = tuple[object, object]


@dataclass(slots=True)
class _Run:
    """What one run was given, as its log says."""

    facts: RunFacts
    claimed: list[str] = field(default_factory=list[str])
    """In the order in which they came."""
    waiting: set[str] = field(default_factory=set[str])
    given_back: int = 0
    """Messages whose pull was given up. They may wait beside others that came meanwhile."""
    acknowledged: list[str] = field(default_factory=list[str])
    stopped: bool = False
    """Whether somebody stopped it."""
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
        """`got` is what its runner read, in that order."""
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
    """What is wrong with what runs read. `got` are the events that each run's runner pulled; everyone may steer runs of
    the `open_agents`."""
    runs: dict[str, _Run] = {}
    actors: dict[tuple[str, str], _Actor] = {}
    for record in all_records(store):
        _read(record, runs, actors, open_agents)
    times = Counter(event_id for events in got.values() for event_id in events)
    problems = [f"event {event_id} was pulled {number} times" for event_id, number in times.items() if number > 1]
    for run_id, run in runs.items():
        problems += [f"{run_id}: {problem}" for problem in run.judge(got.get(run_id, ()))]
    return problems


def _read(
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
