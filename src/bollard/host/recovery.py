"""What a host does at start with the runs of its predecessor: what waited goes on, what was running is lost.

A lost run is replayed through the same machine that ran it, so that what its deltas said is kept as a message.
"""

from collections.abc import Iterator

import msgspec
import structlog

from bollard.host.agents.agent import AgentBook
from bollard.host.clock import Clock
from bollard.host.limits import LEASE_S, REPLAY_PAGE
from bollard.host.log.entries import Entry
from bollard.host.log.facts import RunFacts
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, data_of, encode_data
from bollard.host.runs.dispatcher import QueuedRun
from bollard.host.runs.event import NewEvent
from bollard.host.runs.machine import Fact, RunState, assembled, ending_of, step
from bollard.host.store.boundary import Lease, Store
from bollard.host.store.delta_spans import split
from bollard.host.store.rows import RunRow

__all__ = ["Recovery"]

_log = structlog.get_logger("bollard.recovery")
_facts = msgspec.json.Decoder(RunFacts).decode


class Recovery:
    """Reads what an earlier incarnation left."""

    def __init__(self, store: Store, journal: Journal, clock: Clock, agents: AgentBook, incarnation: str) -> None:
        self._store = store
        self._journal = journal
        self._clock = clock
        self._agents = agents
        self._incarnation = incarnation

    def unfinished(self) -> Iterator[RunRow]:
        after = ""
        while rows := self._store.unfinished_runs(after, REPLAY_PAGE):
            yield from rows
            after = rows[-1].run_id

    def queued(self, row: RunRow) -> QueuedRun | None:
        """A run that never started, ready to go on; `None` when its agent or event is gone."""
        agent = self._agents.get(row.agent_id)
        event_row = self._store.event(row.workspace, row.event_id)
        if agent is None or event_row is None:
            return None
        found = self._store.records(event_row.record_id - 1, 1)
        if not found or found[0].data is None:
            return None
        _, event = NewEvent.from_record(found[0].data)
        facts = _facts(row.facts)
        return QueuedRun(facts=facts, agent=agent, event=event, epoch=row.epoch, seq=self._store.last_seq(row.run_id))

    def replay(self, row: RunRow) -> RunState:
        """The state of a run as far as it got onto the disk."""
        facts = _facts(row.facts)
        state = RunState(on_message=facts.on_message)
        found: list[tuple[int, Fact]] = []
        after = 0
        while records := self._store.records_of_run(row.run_id, after, REPLAY_PAGE):
            found.extend((record.seq or 0, Fact(record.type, data_of(record), record.seq or 0)) for record in records)
            after = records[-1].seq or 0
        for delta_row in self._store.deltas_of_run(row.run_id, 0):
            for seq, payload in split(delta_row, 0):
                found.append((seq, Fact("message.delta", {}, seq, (_text_of(payload),))))
        for _, fact in sorted(found, key=lambda item: item[0]):
            state, _ = step(state, fact)
        return state

    def lost_entry(self, row: RunRow, reason: str) -> Entry:
        """What ends a run whose host is gone: its messages, whole, and its end, under a new epoch."""
        facts = _facts(row.facts)
        self._journal.remember(facts)
        state = self.replay(row)
        epoch, now_ms = row.epoch + 1, self._clock.now_ms()
        seq = self._store.last_seq(row.run_id)
        lost, _ = step(state, Fact("run.cancelled", {"reason": reason}, seq))
        bodies = [("message.completed", body) for body in assembled(state)]
        bodies.append(("run.ended", ending_of(lost, "lost", "the host that owned the run went away").data()))
        records = [
            NewRecord(
                workspace=facts.workspace,
                type=kind,
                data=encode_data(body),
                created_ms=now_ms,
                run_id=facts.run_id,
                seq=seq + index + 1,
                epoch=epoch,
            )
            for index, (kind, body) in enumerate(bodies)
        ]
        lease = Lease(owner=self._incarnation, epoch=epoch, until_ms=now_ms + round(LEASE_S * 1000))
        return Entry(records=records, lease=(facts.run_id, lease), merge=facts.run_id)


def _text_of(payload: bytes) -> tuple[str, str]:
    """The message and the text of one delta."""
    data = msgspec.json.decode(payload)
    content = data.get("chunk", {}).get("content", "")
    return data.get("message_id", ""), content if isinstance(content, str) else ""
