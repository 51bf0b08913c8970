"""Reads the unfinished runs of an earlier incarnation, and builds the entries that end them.

A lost run is replayed through the state machine, so that its deltas become complete messages.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from typing import Final, TypeVar

import msgspec
import structlog

from bollard.host.agents.agent import AgentRegistry
from bollard.host.capabilities.graph import CapabilityGraph
from bollard.host.clock import Clock
from bollard.host.errors import HostError
from bollard.host.grants.grant import Grant
from bollard.host.grants.graphs import load_graph
from bollard.host.grants.session import open_session, policy_of
from bollard.host.limits import (
    DELTA_PAGE_ROWS,
    DELTA_ROW_BYTES,
    LEASE_S,
    RECOVERY_FOLD_BYTES,
    REPLAY_PAGE,
    REPLAY_PAGE_BYTES,
)
from bollard.host.log.entries import Entry
from bollard.host.log.records import NewRecord, RunFacts, data_of, encode_data
from bollard.host.reason import Why
from bollard.host.runs.creation import QueuedRun, is_repeatable
from bollard.host.runs.event import NewEvent
from bollard.host.runs.machine import Fact, RunState, ending_of, last_records, step
from bollard.host.store.action_rows import ToolCallRow
from bollard.host.store.delta_spans import extent_of, pieces, split
from bollard.host.store.queries import Lease
from bollard.host.store.rows import DeltaRow, RecordRow, RunRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

Key = TypeVar("Key")
Row = TypeVar("Row")
WENT_AWAY: Final = "the host that owned the run went away"

_log = structlog.get_logger("bollard.recovery")
_decode_facts = msgspec.json.Decoder(RunFacts).decode


def facts_of(row: RunRow) -> RunFacts:
    """The facts that were fixed when the run was created."""
    return _decode_facts(row.facts)


class WaitingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that waits for a run."""

    workspace: str
    event_id: str
    record_id: int
    """The record of its event, which gives the order of arrival."""
    event: NewEvent
    agent_id: str
    binding_id: str | None = None
    """The binding of its lost run, if the run may be repeated."""


class Recovery:
    """Finds unfinished runs, messages and calls of earlier incarnations."""

    def __init__(self, store: Store, clock: Clock, agents: AgentRegistry, incarnation: str) -> None:
        self._store = store
        self._clock = clock
        self._agents = agents
        self._incarnation = incarnation

    def unfinished(self) -> Iterator[RunRow]:
        """Runs of earlier incarnations that have not ended."""
        rows = _paged(lambda after: self._store.unfinished_runs(after, REPLAY_PAGE), "", lambda row: row.run_id)
        return (row for row in rows if not self._is_ours(row))

    def _is_ours(self, row: RunRow) -> bool:
        """Whether this incarnation created the run. A queued run has no owner, so the chain of its first record
        decides."""
        if row.owner is not None:
            return row.owner == self._incarnation
        first = self._store.records_of_run(row.run_id, 0, 1)
        return bool(first) and first[0].chain == self._incarnation

    def queued(self, row: RunRow) -> QueuedRun | None:
        """A queued run, ready to start. `None` if its agent or event is gone."""
        agent = self._agents.get(row.agent_id, row.workspace)
        event_row = self._store.event(row.workspace, row.event_id)
        if agent is None or event_row is None:
            return None
        found = self._store.records(event_row.record_id - 1, 1)
        if not found or found[0].data is None:
            return None
        _, event = NewEvent.from_record(found[0].data, row.workspace)
        grant = self.grant_of(row.run_id)
        if grant is None:
            return None
        return QueuedRun(
            facts=facts_of(row),
            agent=agent,
            event=event,
            session=open_session(
                grant,
                self._graph_of(grant),
                policy_of(agent.policy, unattended=not event.attended),
                traceparent=event.traceparent,
            ),
            epoch=row.epoch,
            seq=self._store.last_seq(row.run_id),
        )

    def arrivals(self, rows: Iterable[RunRow]) -> dict[str, int]:
        """The record id of each run's event. Records are in order of arrival; ids depend on the clock."""
        events = {row.run_id: self._store.event(row.workspace, row.event_id) for row in rows}
        return {run_id: 0 if event is None else event.record_id for run_id, event in events.items()}

    def grant_of(self, run_id: str) -> Grant | None:
        """The grant of a run. `None` if retention deleted it, or it cannot be read."""
        for record in self._store.records_of_run(run_id, 0, 2):
            if record.type == "grant.issued" and record.data is not None:
                try:
                    return Grant.from_json(record.data)
                except HostError as error:
                    _log.warning("the grant of a queued run cannot be read", run=run_id, problem=error.message)
        return None

    def _graph_of(self, grant: Grant) -> CapabilityGraph | None:
        """The capability graph of the run. Without it the run can call nothing."""
        problem = "the graph was deleted by retention"
        try:
            graph = load_graph(self._store, grant.scope.workspace, grant.graph_sha256)
        except HostError as error:
            graph, problem = None, error.message
        if graph is None:
            _log.warning("the capability graph of a queued run is not available", run=grant.run_id, problem=problem)
        return graph

    def pending(self) -> list[WaitingMessage]:
        """Messages on disk without a run: a run did not read them, or the host died while they were delivered."""
        messages: list[WaitingMessage] = []
        for row in _paged(lambda after: self._store.pending_events(after, REPLAY_PAGE), 0, lambda row: row.record_id):
            record = self._earlier_record(row.record_id)
            if record is None or record.data is None:
                continue  # of this incarnation, or deleted by retention
            event_id, event = NewEvent.from_record(record.data, row.workspace)
            agent_id = msgspec.json.decode(record.data).get("agent_id", "")
            lost = None if row.run_id is None else self._store.run(row.run_id)
            messages.append(
                WaitingMessage(
                    workspace=row.workspace,
                    event_id=event_id,
                    record_id=row.record_id,
                    event=event,
                    agent_id=agent_id if lost is None else lost.agent_id,
                    binding_id=None if lost is None else lost.binding_id,
                )
            )
        return messages

    def open_calls(self) -> list[ToolCallRow]:
        """Calls of earlier incarnations without an outcome whose runs have ended: they were approved after the end of
        their run, and interrupted with the host."""
        rows = _paged(lambda after: self._store.open_tool_calls(after, REPLAY_PAGE), 0, lambda row: row.record_id)
        return [row for row in rows if self._earlier_record(row.record_id) is not None]

    def _earlier_record(self, record_id: int) -> RecordRow | None:
        """The record, if an earlier incarnation wrote it."""
        record = next(iter(self._store.records(record_id - 1, 1)), None)
        return None if record is None or record.chain == self._incarnation else record

    def unknown_entry(self, row: ToolCallRow) -> Entry:
        """The entry that records the outcome of such a call as unknown."""
        body: JsonObject = {
            "run_id": row.run_id,
            "call_id": row.call_id,
            "capability": row.capability,
            "code": "outcome_unknown",
            "message": "the host went away before the outcome was known",
            "flow": row.flow,
        }
        record = NewRecord(
            workspace=row.workspace, type="action.unknown", data=encode_data(body), created_ms=self._clock.now_ms()
        )
        return Entry(records=[record])

    def row(self, run_id: str) -> RunRow | None:
        return self._store.run(run_id)

    def replay(self, row: RunRow) -> RunState:
        """The state of a run according to its stored records."""
        facts = facts_of(row)
        state = RunState(on_message=facts.on_message)
        for fact in merge(self._records(row.run_id), self._deltas(row.run_id), key=lambda fact: fact.seq):
            state, _ = step(state, fact)
        return state

    def _records(self, run_id: str) -> Iterator[Fact]:
        records = _paged(
            lambda after: self._store.records_of_run(run_id, after, REPLAY_PAGE), 0, lambda record: record.seq or 0
        )
        return (Fact(record.type, data_of(record), record.seq or 0) for record in records)

    def _deltas(self, run_id: str) -> Iterator[Fact]:
        for row in self._delta_rows(run_id):
            for seq, payload in split(row, 0):
                yield Fact("message.delta", {}, seq, (_text_of(payload),))

    def _delta_rows(self, run_id: str) -> Iterator[DeltaRow]:
        return _paged(
            lambda after: self._store.deltas_page(run_id, after, DELTA_PAGE_ROWS, REPLAY_PAGE_BYTES),
            0,
            lambda row: row.last_seq,
        )

    def _repeats(self, row: RunRow, facts: RunFacts, state: RunState) -> bool:
        """Whether the event of a lost run gets another run. Not for a waiting run: its approval outlives it."""
        if not is_repeatable(self._agents.saved_one(row.agent_id, row.workspace), facts):
            return False
        return row.status in ("dispatching", "running") and state.cancel is None and state.terminal is None

    def folds(self, row: RunRow) -> list[Entry]:
        """Entries that merge the delta rows of a run, a bounded number in each. They come before its end, so that the
        next start continues if the host dies in between."""
        due = pieces(extent_of(delta) for delta in self._delta_rows(row.run_id))
        at_once = RECOVERY_FOLD_BYTES // DELTA_ROW_BYTES
        return [
            Entry(
                merge=[(row.run_id, *piece) for piece in due[first : first + at_once]],
                fence=(row.run_id, row.epoch),
                size=RECOVERY_FOLD_BYTES,
            )
            for first in range(0, len(due), at_once)
        ]

    def lost_entry(self, row: RunRow, reason: str, detail: str = WENT_AWAY, *, again: bool = False) -> Entry:
        """The entry that ends a lost run under a new epoch: its complete messages, and `run.ended`. With `again` its
        event gets another run, if its agent is repeatable."""
        facts = facts_of(row)
        state = self.replay(row)
        epoch, now_ms = row.epoch + 1, self._clock.now_ms()
        seq = self._store.last_seq(row.run_id)
        lost, _ = step(state, Fact("run.cancelled", {"reason": reason}, seq))
        ending = ending_of(lost, "lost", Why(detail))
        bodies: list[tuple[str, JsonObject]] = []
        if reason != "host.lost":  # a requested cancel
            bodies.append(("run.cancelled", {"reason": reason}))
        bodies += last_records(state, ending, redispatch=again and self._repeats(row, facts, state))
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
        return Entry(records=records, lease=(facts.run_id, lease))


def _paged(read: Callable[[Key], Sequence[Row]], start: Key, key: Callable[[Row], Key]) -> Iterator[Row]:
    """All rows of a query that reads one page of the rows after a key."""
    while rows := read(start):
        yield from rows
        start = key(rows[-1])


def _text_of(payload: bytes) -> tuple[str, str]:
    """The message and the text of one delta."""
    data = msgspec.json.decode(payload)
    content = data.get("chunk", {}).get("content", "")
    return data.get("message_id", ""), content if isinstance(content, str) else ""
