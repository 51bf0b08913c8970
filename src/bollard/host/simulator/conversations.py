"""What must hold between runs: the order of a conversation, interruptions, and children that end with their parents.

Read from the log alone; changes nothing.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import msgspec

from bollard.host.agents.lanes import LaneKey, lane_of
from bollard.host.agents.policies import ConcurrencyMode
from bollard.host.log.facts import RunFacts
from bollard.host.simulator.ledger import all_records
from bollard.host.store.boundary import Store
from bollard.host.store.rows import RecordRow
from bollard.protocol import limits

__all__ = ["conversation_problems"]

_facts: Final = msgspec.json.Decoder(RunFacts).decode
_PROMPT_S: Final = 2.0
"""Time in which a run that is interrupted has been told to stop."""
_GRACE_S: Final = limits.CANCEL_GRACE_S + 1.0
"""Time by which a child may outlive its parent: its grace, and what it takes to notice."""
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
    """What is wrong between runs. `modes` says how each agent takes messages while it is busy."""
    lives = _lives(store)
    lanes: dict[LaneKey, list[_Life]] = defaultdict(list)
    for life in lives.values():
        lane = lane_of(life.facts.workspace, life.facts.agent_id, life.facts)
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
    """Runs start in the order in which their messages came, which their ids have."""
    started = sorted((life for life in lives if life.started is not None), key=lambda life: life.facts.event_id)
    for before, behind in pairwise(started):
        if before.started is not None and behind.started is not None and behind.started.id < before.started.id:
            yield f"{behind.facts.run_id} came after {before.facts.run_id} and started before it"


def _uninterrupted(lives: Sequence[_Life]) -> Iterator[str]:
    """A run that is active when a newer message comes is told to stop. Other events wait for it."""
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
