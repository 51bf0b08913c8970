"""Runs that ask, people who answer, and an executor that only counts: over the host's own parts, without its rim."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.replacement import replace

from bollard.host.agents.policies import AgentPolicy, ApprovalPolicy, AudiencePolicy, ConcurrencyPolicy
from bollard.host.approvals.approval import Approval, Decision, Permission, Proposal
from bollard.host.approvals.approvals import ApprovalRequests, Approvals, open_approvals
from bollard.host.approvals.decisions import Verdict
from bollard.host.approvals.detached_calls import DetachedOutcome
from bollard.host.approvals.registry import OpenApproval
from bollard.host.capabilities.capability import NO_FLOW, Capability
from bollard.host.errors import HostError
from bollard.host.grants.session import RunSession
from bollard.host.runs.control import WaitingRuns
from bollard.host.runs.event import NewEvent
from bollard.host.runs.live_run import LiveRun
from bollard.host.store.store import Store
from bollard.protocol import JsonObject, JsonValue

PATIENCE_S = 120.0
SECRET = "correct horse battery"


def capability(name: str = "send", **more: Any) -> Capability:
    fields: dict[str, Any] = {
        "id": f"mcp:post/{name}",
        "name": name,
        "kind": "mcp",
        "description": "Sends a letter.",
        "input_schema": {"type": "object"},
        "source": "mcp:post",
        "flow": NO_FLOW,
    }
    return Capability(**{**fields, **more})


class ApprovalHost:
    """One incarnation of a host: its runs, its approvals, and its executed calls."""

    def __init__(self, stage: Any, done: list[tuple[str, str, str]]) -> None:
        self.stage = stage
        self.done = done
        """Every call that was made, by run, call and digest: of all incarnations."""
        self.raised: list[NewEvent] = []
        self.before_execute: Callable[[], Awaitable[None]] | None = None
        requests = ApprovalRequests(
            journal=stage.journal,
            clock=stage.clock,
            live=stage.dispatcher.live,
            parked=WaitingRuns(stage.dispatcher.live),
            agents=stage.agents,
            holds_secret=lambda workspace, value: SECRET in str(value),
        )
        self.approvals: Approvals = open_approvals(
            requests,
            store=stage.store,
            clock=stage.clock,
            live=stage.dispatcher.live,
            agents=stage.agents,
            execute=self._execute,
            submit_event=self._submit_event,
            is_offered=lambda workspace, capability_id: True,
        )
        self._count = 0
        self.asking: list[asyncio.Task[Permission]] = []

    def agent(self, **more: Any) -> None:
        approval = ApprovalPolicy(**more.pop("approval", {}))
        audience = AudiencePolicy(**more.pop("audience", {}))
        policy = AgentPolicy(concurrency=ConcurrencyPolicy(mode="parallel"), approval=approval, audience=audience)
        self.stage.agent(policy=policy, **more)

    async def run(self, text: str = "hello", **more: Any) -> LiveRun:
        run_id = await self.stage.say(text, **more)
        slot = self.stage.pool.slots[0]
        await slot.worker.until(lambda: any(each.run_id == run_id for each in slot.worker.runs))
        return self.stage.dispatcher.live[run_id]

    def proposal(self, run: LiveRun, call_id: str | None = None, **more: Any) -> Proposal:
        self._count += 1
        session = run.session
        fields: dict[str, Any] = {
            "call_id": call_id or f"call_{self._count}",
            "capability": capability(),
            "name": "send",
            "arguments": {"to": "ann", "body": "hello"},
            "context": session.context,
            "grant_sha256": session.grant.sha256,
            "policy": session.policy.approval,
            "why": ("risk",),
        }
        return Proposal(**{**fields, **more})

    async def ask(self, run: LiveRun, proposal: Proposal) -> Permission:
        """As the executor does: a yes is followed by the call, once, in the same step."""
        permission = await self.approvals.ask(run.session, proposal)
        assert permission.digest == proposal.digest or permission.decision == "allow_run"
        self.done.append((run.facts.run_id, proposal.call_id, proposal.digest))
        return permission

    async def parked(self, run: LiveRun, **more: Any) -> "tuple[asyncio.Task[Permission], Approval]":
        """A call that waits for its answer."""
        proposal = self.proposal(run, **more)
        task = asyncio.create_task(self.ask(run, proposal))
        self.asking.append(task)
        await self.settled(lambda: task.done() or self.open(run, proposal.call_id) is not None)
        if task.done():
            task.result()
        found = self.open(run, proposal.call_id)
        assert found is not None
        return task, found.approval

    def open(self, run: LiveRun, call_id: str) -> OpenApproval | None:
        return self.approvals.registry.of_call(run.facts.run_id, call_id)

    async def decide(self, approval: Approval, decision: Decision, by: str = "user:ann", **more: Any) -> None:
        fields: dict[str, Any] = {"digest": approval.digest, **more}
        verdict = Verdict(decision=decision, by=by, **fields)
        await self.approvals.decide(approval.workspace, approval.approval_id, verdict)

    async def refused(self, approval: Approval, decision: Decision, **more: Any) -> HostError:
        with pytest.raises(HostError) as told:
            await self.decide(approval, decision, **more)
        return told.value

    def status(self, approval: Approval) -> str:
        row = self.stage.store.approval(approval.workspace, approval.approval_id)
        assert row is not None
        return row.status

    async def settled(self, condition: Callable[[], bool]) -> None:
        """Until everything that is under way has made it true. Every step of it is a commit, which wakes the loop."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.to_thread(self.stage.store.revision)

    async def crash(self, run: LiveRun) -> None:
        """The worker of the run dies."""
        for slot in self.stage.pool.slots:
            slot.worker.end.close("it died")
        self.stage.pool.slots.clear()
        await self.stage.ended(run.facts.run_id)
        await self.stage.pool.add()

    async def _execute(self, session: RunSession, approval: Approval) -> DetachedOutcome:
        """The executor's way for a run that has ended: it asks again, and gets the yes that there is."""
        if self.before_execute is not None:
            await self.before_execute()
        asked = capability()
        proposal = Proposal(
            call_id=approval.call_id,
            capability=asked,
            name=approval.name,
            arguments=approval.sent_arguments,
            context=session.context,
            grant_sha256=session.grant.sha256,
            policy=session.policy.approval,
            why=approval.why,
        )
        permission = await self.approvals.ask(session, proposal)
        self.done.append((approval.run_id, approval.call_id, permission.digest))
        result: JsonObject = {"content": [{"type": "text", "text": "sent"}]}
        return DetachedOutcome(status="completed", result=result)

    async def _submit_event(self, event: NewEvent, agent_id: str) -> object:
        self.raised.append(event)
        return await self.stage.intake.accept(event, agent_id, keep=True)

    async def close(self) -> None:
        for task in self.asking:
            task.cancel()
        await asyncio.gather(*self.asking, return_exceptions=True)
        await self.approvals.close()


@pytest.fixture
async def hosts(stages: Any) -> AsyncIterator[Callable[..., Awaitable[ApprovalHost]]]:
    """Hosts: `await hosts(store)`; a second one on the same store follows the first. Request the store before this: it
    is closed after them."""
    opened: list[ApprovalHost] = []
    done: list[tuple[str, str, str]] = []

    async def open_desk(store: Store, **more: Any) -> ApprovalHost:
        host = ApprovalHost(await stages(store, **more), done)
        opened.append(host)
        host.agent()
        return host

    yield open_desk
    for host in opened:
        await host.close()


@pytest.fixture
async def host(store: Store, hosts: Any) -> ApprovalHost:
    return await hosts(store)


@pytest.fixture
async def fast_host(memory_store: Store, hosts: Any) -> ApprovalHost:
    """For tests that do not depend on the store."""
    return await hosts(memory_store)


def changed(proposal: Proposal, **fields: JsonValue) -> Proposal:
    """The same call with something else in it."""
    return replace(proposal, **fields)  # pyright: ignore[reportArgumentType]
