"""F40 as a state machine: in any sequence, no call is made without an approval, and none twice."""

import asyncio
import collections
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore
from tests.host.conftest import MemoryBlobs, Stage

from bollard.host.approvals.approval import Approval, Permission
from bollard.host.errors import HostError
from bollard.host.log.journal import Journal
from bollard.host.log.journal_writers import WriterThread
from bollard.host.log.writer import Writer
from bollard.host.runs import dispatcher
from bollard.host.runs.live_run import LiveRun
from bollard.trust.keys import SigningKey

from .conftest import ApprovalHost

T = TypeVar("T")
DECISIONS = st.sampled_from(["allow_once", "allow_run", "deny", "deny_stop"])


@dataclass
class Question:
    """The test's knowledge of one approval: from its own actions, not from the host."""

    approval: Approval
    run: LiveRun
    task: "asyncio.Task[Permission]"


class Approvals(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock)
        self.key = SigningKey(SigningKey.new_secret())
        self.done: list[tuple[str, str, str]] = []
        self.hosts: list[ApprovalHost] = []
        self.journals: list[Journal] = []
        self.questions: list[Question] = []
        self.runs: list[LiveRun] = []
        self.allowed: set[str] = set()
        self.covered: set[str] = set()

    def play(self, work: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(120):
                return await work

        return self.loop.run_until_complete(bounded())

    @property
    def host(self) -> ApprovalHost:
        return self.hosts[-1]

    @initialize()
    def start(self) -> None:
        self.play(self._start())

    async def _start(self) -> None:
        incarnation = f"i{len(self.hosts)}"
        writer = Writer(self.store, MemoryBlobs(), self.clock, incarnation=incarnation, key=self.key)
        journal = Journal(WriterThread(writer))
        await journal.start()
        self.journals.append(journal)
        stage = Stage(journal, self.store, MemoryBlobs(), self.clock, incarnation)
        await stage.pool.add()
        self.hosts.append(ApprovalHost(stage, self.done))
        self.host.agent()
        await self.host.approvals.load(stage.core.startup_recovery.lost_are_ended)
        await stage.core.startup_recovery.run()

    @rule()
    def begin(self) -> None:
        if len(self.runs) < 4:
            self.runs.append(self.play(self.host.run(source=f"web-{len(self.hosts)}")))

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), to=st.sampled_from(["ann", "bob"]), call=st.sampled_from(["same", "other"]))
    def ask(self, data: st.DataObject, to: str, call: str) -> None:
        """Also the same call again, and the same call with other bytes in it."""
        run = data.draw(st.sampled_from(self.runs))
        self.play(self._ask(run, to, f"call_{call}"))

    async def _ask(self, run: LiveRun, to: str, call_id: str) -> None:
        if any(made[:2] == (run.facts.run_id, call_id) for made in self.done):
            return  # the executor returns the recorded outcome of a completed call, without an approval
        if self.host.open(run, call_id) is not None:
            return  # nor does it ask twice about a call that waits
        proposal = self.host.proposal(run, call_id=call_id, arguments={"to": to})
        task = asyncio.create_task(self.host.ask(run, proposal))
        self.host.asking.append(task)
        await self.host.settled(lambda: task.done() or self.host.open(run, call_id) is not None)
        found = self.host.open(run, call_id)
        if found is not None and not task.done():
            self.questions.append(Question(found.approval, run, task))

    @precondition(lambda self: self.questions)
    @rule(data=st.data(), decision=DECISIONS, honest=st.booleans())
    def decide(self, data: st.DataObject, decision: Any, honest: bool) -> None:
        """Any approval at any time: decided before, expired, of an ended run; also with the digest of another one."""
        question = data.draw(st.sampled_from(self.questions))
        other = data.draw(st.sampled_from(self.questions))
        digest = question.approval.digest if honest else other.approval.digest
        self.play(self._decide(question, decision, digest))

    async def _decide(self, question: Question, decision: Any, digest: str) -> None:
        approval, was_open = question.approval, self._may_be_open(question)
        try:
            await self.host.decide(approval, decision, digest=digest)
        except HostError:
            return
        assert was_open, "a question that was not open was decided"
        assert digest == approval.digest
        if decision.startswith("allow"):
            self.allowed.add(approval.digest)
            if decision == "allow_run":
                self.covered.add(approval.run_id)
        await self._rest()

    def _may_be_open(self, question: Question) -> bool:
        row = self.store.approval("default", question.approval.approval_id)
        return row is not None and row.status == "requested" and self.clock.now_ms() < question.approval.expires_ms

    @rule(seconds=st.sampled_from([1, 400, 901]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.play(self._sweep())

    async def _sweep(self) -> None:
        self.host.approvals.sweep()
        await self._rest()

    @precondition(lambda self: self.runs)
    @rule(data=st.data())
    def stop(self, data: st.DataObject) -> None:
        run = data.draw(st.sampled_from(self.runs))
        self.play(self._stop(run))

    async def _stop(self, run: LiveRun) -> None:
        run.cancel("cancelled")
        run.give_up("answered")
        self.runs.remove(run)
        await self.host.stage.ended(run.facts.run_id)
        await self._rest()

    @precondition(lambda self: self.questions)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.questions)).task.cancel()
        self.play(self._rest())

    @precondition(lambda self: self.runs)
    @rule()
    def crash(self) -> None:
        self.play(self._crash())

    async def _crash(self) -> None:
        run, *others = self.runs
        await self.host.crash(run)
        for other in others:
            await self.host.stage.ended(other.facts.run_id)
        self.runs.clear()
        await self._rest()

    @rule(how=st.sampled_from(["crash", "restart"]), decision=DECISIONS, wait=st.sampled_from([0, 901]))
    def lose(self, how: str, decision: Any, wait: int) -> None:
        """The easily missed case: a run is lost while a call of it is parked, and then the call is decided."""
        self.play(self._lose(how, decision, wait))

    async def _lose(self, how: str, decision: Any, wait: int) -> None:
        if how == "restart" and len(self.hosts) > 3:
            return
        run = await self.host.run(source=f"web-{len(self.hosts)}")
        self.runs.append(run)
        await self._ask(run, "ann", "call_lost")
        await (self._restart() if how == "restart" else self._crash())
        self.clock.advance(wait)
        await self._decide(self.questions[-1], decision, self.questions[-1].approval.digest)

    @precondition(lambda self: len(self.hosts) < 4)
    @rule()
    def restart(self) -> None:
        """As after `kill -9`: no active work continues, and another incarnation takes over."""
        self.play(self._restart())

    async def _restart(self) -> None:
        await self.host.approvals.close()
        for run in self.runs:
            await run.written()
        self.runs.clear()
        await self._start()
        await self._rest()

    async def _rest(self) -> None:
        """Until all started work has ended: every approval for an ended run was executed."""
        await self.host.settled(lambda: not any(one.detached for one in self.host.approvals.registry))
        for _ in range(3):
            await asyncio.to_thread(self.store.revision)

    @invariant()
    def nothing_is_done_that_nobody_allowed(self) -> None:
        for run_id, _, digest in self.done:
            assert digest in self.allowed or run_id in self.covered

    @invariant()
    def nothing_is_done_twice(self) -> None:
        made = collections.Counter((run_id, call_id) for run_id, call_id, _ in self.done)
        assert [call for call, times in made.items() if times > 1] == []

    def teardown(self) -> None:
        self.play(self._close())
        self.loop.close()

    async def _close(self) -> None:
        for host in self.hosts:
            await host.close()
            await host.stage.close()
        for journal in self.journals:
            await journal.close()
        self._check_log()

    def _check_log(self) -> None:
        """One decision for each approval, after any clicks."""
        said = collections.defaultdict[str, list[str]](list)
        for question in self.questions:
            row = self.store.approval("default", question.approval.approval_id)
            assert row is not None
            said[row.approval_id].append(row.status)
        for record in self.store.records(0, 100_000):
            if record.type in ("approval.granted", "approval.denied") and record.data is not None:
                said["decided"].append(record.data.decode().split('"approval_id":"')[1].split('"')[0])
        assert [each for each, times in collections.Counter(said["decided"]).items() if times > 1] == []


def test_no_call_runs_without_an_approval_or_twice_in_any_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    # Runs of a killed incarnation never end there, so no waiter needs their last results.
    monkeypatch.setattr(dispatcher, "LAST_WORDS_S", 0.05)
    run_state_machine_as_test(
        Approvals,
        settings=settings(
            max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
