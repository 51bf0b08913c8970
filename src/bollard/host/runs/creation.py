"""Builds a run before its first commit: its facts, its grant and its first records. The intake decides before."""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from bollard.host.agents.agent import Agent
from bollard.host.clock import Clock
from bollard.host.grants.access import AccessCache
from bollard.host.grants.child import issue_child_grant
from bollard.host.grants.grant import Grant, issue_grant, limits_of
from bollard.host.grants.graphs import Graphs
from bollard.host.grants.offer import Offer
from bollard.host.grants.session import RunSession, open_session, policy_of
from bollard.host.log.entries import Entry
from bollard.host.log.records import NewRecord, RunFacts, encode_data
from bollard.host.runs.event import NewEvent, deliver_to
from bollard.host.runs.ids import IdMaker
from bollard.host.runs.live_run import LiveRun


class QueuedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has not started and is on disk or being committed."""

    facts: RunFacts
    agent: Agent
    event: NewEvent
    session: RunSession
    epoch: int
    seq: int

    @property
    def grant(self) -> Grant:
        return self.session.grant


class RunMaker:
    """Makes runs of events."""

    def __init__(
        self, clock: Clock, ids: IdMaker, offer_of: Callable[[str], Offer], accesses: AccessCache | None = None
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._offer_of = offer_of
        self._accesses = accesses or AccessCache()
        self._graphs = Graphs()

    def new_id(self) -> str:
        """An id stamp that sorts by time. An event and its run share it."""
        return self._ids.next(self._clock.now_ms())

    def make(
        self,
        event: NewEvent,
        agent: Agent,
        binding_id: str,
        *,
        event_id: str | None = None,
        epoch: int = 0,
        parent: LiveRun | None = None,
        external: bool = False,
    ) -> QueuedRun:
        """Build a run of this event. With `event_id` the event is on disk already."""
        stamp = self.new_id()
        run_id = f"run_{stamp}"
        session = self.session(event, agent, run_id, parent)
        grant = session.grant
        facts = RunFacts(
            **msgspec.structs.asdict(grant.scope),
            run_id=run_id,
            event_id=event_id or f"evt_{stamp}",
            agent_id=agent.agent_id,
            binding_id=binding_id,
            runner_id=agent.runner_id,
            grant_sha256=grant.sha256,
            parent_run_id=None if parent is None else parent.facts.run_id,
            depth=grant.depth,
            adopts=event_id is not None,
            external=external,
            on_message=event.is_message,
            deadline_s=grant.limits.deadline_s,
            idle_s=grant.limits.idle_s,
            deliver_to=None if parent is not None else deliver_to(event.reply, event.trigger, agent.policy.delivery),
            flow=event.flow if parent is None else event.flow | parent.flow,
        )
        return QueuedRun(facts=facts, agent=agent, event=event, session=session, epoch=epoch, seq=2)

    def grant(self, event: NewEvent, agent: Agent, run_id: str) -> Grant:
        """The grant of a run of this event."""
        return self.session(event, agent, run_id).grant

    def session(self, event: NewEvent, agent: Agent, run_id: str, parent: LiveRun | None = None) -> RunSession:
        """The grant, capabilities and policy of a run of this event, never more than its parent has."""
        offer = self._offer_of(agent.workspace)
        access, trace = self._accesses.get(agent, offer), event.traceparent
        scope = event.scope
        if scope.workspace != agent.workspace:
            raise ValueError("an event and its agent are in different workspaces")
        limits = limits_of(agent)
        if parent is None:
            graph = self._graphs.of(access, offer)
            grant = issue_grant(run_id=run_id, access=access, scope=scope, limits=limits, graph_sha256=graph.sha256)
            return open_session(grant, graph, policy_of(agent.policy, unattended=not event.attended), traceparent=trace)
        # The deadline of a child never exceeds the time that its parent has left.
        limits = msgspec.structs.replace(limits, deadline_s=max(0.001, min(limits.deadline_s, parent.left_s)))
        above = parent.session
        grant = issue_child_grant(
            run_id=run_id,
            access=access,
            scope=scope,
            limits=limits,
            parent=parent.grant,
            revoked=parent.revoked,
            graph_of=lambda left: self._graphs.of_child(left, above.graph),
        )
        graph = self._graphs.of_child(grant.access, above.graph)
        return open_session(
            grant, graph, policy_of(agent.policy, unattended=above.policy.unattended), traceparent=trace
        )

    def first_entry(self, queued: QueuedRun, *, fresh: bool = False) -> Entry:
        """The first records of a run, and its graph if that is new. A `fresh` event cannot be a duplicate, so it is not
        looked up."""
        facts, records = queued.facts, self.first_records(queued)
        known = fresh or facts.adopts
        keeps = self._graphs.rows(facts.workspace, queued.session.graph, records[0].created_ms)
        return Entry(
            records=records,
            dedupe=None if known else (facts.workspace, queued.event.source, queued.event.source_id),
            adopt=(facts.workspace, facts.event_id) if facts.adopts else None,
            keeps=[*keeps],
            size=sum(len(record.data) for record in records) + sum(len(kept.row.body) for kept in keeps),
        )

    def written(self, queued: QueuedRun) -> None:
        """The first entry of a run is on disk."""
        self._graphs.written(queued.facts.workspace, queued.session.graph)

    def first_records(self, queued: QueuedRun) -> list[NewRecord]:
        """Event, run, grant and the files of the event in one commit. An event on disk is not written again."""
        facts, now_ms = queued.facts, self._clock.now_ms()
        records = [
            _record(queued, "run.created", encode_data(facts), 1, now_ms),
            _record(queued, "grant.issued", queued.grant.json, 2, now_ms),
        ]
        if not facts.adopts:
            records.insert(
                0, _record(queued, "event.received", queued.event.record(facts.event_id, facts.run_id), None, now_ms)
            )
            records += queued.event.file_records(facts.event_id, facts.run_id, now_ms)
        return records


def _record(queued: QueuedRun, kind: str, data: bytes, seq: int | None, now_ms: int) -> NewRecord:
    of_run = seq is not None
    return NewRecord(
        workspace=queued.facts.workspace,
        type=kind,
        data=data,
        created_ms=now_ms,
        run_id=queued.facts.run_id if of_run else None,
        seq=seq,
        epoch=queued.epoch if of_run else None,
    )


def claimed(queued: QueuedRun) -> QueuedRun:
    """The run under its next owner, one record further."""
    return replace(queued, epoch=queued.epoch + 1, seq=queued.seq + 1)


def is_repeatable(agent: Agent | None, facts: RunFacts) -> bool:
    """Whether the event of a run gets one more run if the host crashes. Only once, because the run may be the cause of
    the crash. Not for child runs, whose parent is lost too, nor for external runs, whose executor is still there."""
    if agent is None or not agent.repeatable:
        return False
    return not facts.adopts and not facts.external and facts.parent_run_id is None
