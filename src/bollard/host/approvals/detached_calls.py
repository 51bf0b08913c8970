"""Carries out a yes for a run that has ended: exactly the bytes that were shown, once, under the grant that it had,
unless something of it was taken away since. Then the conversation is told by an event, which starts another run.

The row of the call says whether it was begun, and the event can be raised only once, so that a crash anywhere in
between repeats neither; the record `approval.used` comes last and says that there is nothing left to do.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

import msgspec
import structlog

from bollard.host.agents.agent import AgentRegistry
from bollard.host.approvals.approval import Approval
from bollard.host.approvals.registry import ApprovalLog, ApprovalRegistry, OpenApproval
from bollard.host.background import Background
from bollard.host.clock import Clock
from bollard.host.errors import CapabilityDenied, HostError
from bollard.host.grants.graphs import load_graph
from bollard.host.grants.revocation import Revocation
from bollard.host.grants.session import RunSession, open_session, policy_of
from bollard.host.limits import DETACHED_AT_ONCE, DETACHED_WAIT_S, EVENT_DATA_BYTES
from bollard.host.log.kill_points import kill_point
from bollard.host.log.records import RunFacts, encode_data
from bollard.host.runs.control import RunControl
from bollard.host.runs.event import OWN_SOURCE, NewEvent
from bollard.host.store.action_rows import ToolCallRow
from bollard.host.store.rows import RunRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject, limits

T = TypeVar("T")
_log = structlog.get_logger("bollard.approvals")
_AGAIN_S: Final = 1.0
"""Time before the second try of a step that the host could not take; doubled with each."""
_AGAIN_MAX_S: Final = 60.0
"""The longest time between two tries."""


class _End(msgspec.Struct, omit_defaults=True):
    """Of the record of a call's end, what is told."""

    content: list[Any] = []
    structured: Any = None
    is_error: bool = False
    artifact_refs: list[Any] = []
    code: str | None = None
    message: str | None = None


_end: Final = msgspec.json.Decoder(_End).decode
_LOOK_S: Final = 0.2
"""Time between two looks whether what carries a call out is there."""
_facts: Final = msgspec.json.Decoder(RunFacts).decode


class DetachedOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    status: str
    """`completed`, `failed`, `rejected` or `unknown`, as for any call; `denied` or `expired` where none was made."""
    code: str | None = None
    error: str | None = None
    result: JsonObject | None = None
    flow: int = 0
    """What the result brings along, as bits of `Flow`."""

    def data(self) -> JsonObject:
        found: JsonObject = {"outcome": self.status}
        if self.code is not None:
            found["code"] = self.code
        if self.error is not None:
            found["error"] = self.error
        return found


class DetachedExecutor(Protocol):
    """Makes the call through the one executor, which asks for the yes like for any other."""

    def __call__(self, session: RunSession, approval: Approval) -> Awaitable[DetachedOutcome]: ...


Raise = Callable[[NewEvent, str, str], Awaitable[object]]
"""Takes an event for an agent of a workspace; the same again changes nothing."""


Offered = Callable[[str, str], bool]
"""Whether a capability can be called in a workspace now."""


class DetachedApprovals:
    """One per host."""

    def __init__(
        self,
        *,
        book: ApprovalRegistry,
        log: ApprovalLog,
        clock: Clock,
        store: Store,
        agents: AgentRegistry,
        control: RunControl,
        carry: DetachedExecutor,
        raises: Raise,
        offered: Offered,
    ) -> None:
        self._book = book
        self._log = log
        self._clock = clock
        self._store = store
        self._agents = agents
        self._control = control
        self._carry = carry
        self._raises = raises
        self._offered = offered
        self._room = asyncio.Semaphore(DETACHED_AT_ONCE)
        self._background = Background()

    def begin(self, open_one: OpenApproval) -> None:
        """Somebody said yes, and it is on disk."""
        if not open_one.carried:
            open_one.carried = True
            self._background.begin(self._carry_out(open_one))

    def refused(self, approval: Approval) -> None:
        """Somebody said no: the conversation hears of it, nothing else happens."""
        denied = DetachedOutcome(status="denied", code="approval_denied", error="somebody said no")
        self._background.begin(self._tell(approval, denied))

    async def _carry_out(self, open_one: OpenApproval) -> None:
        approval = open_one.approval
        async with self._room:
            kill_point("approval.before_detached")
            carried = await self._outcome(open_one)
            kill_point("approval.after_detached")
        await self._tell(approval, carried)
        used: JsonObject = {
            "approval_id": approval.approval_id,
            "call_id": approval.call_id,
            "digest": approval.digest,
            "detached": True,
            **carried.data(),
        }
        await self._insist(
            lambda: self._log.beside(approval, "approval.used", used, lambda: self._book.remove(approval))
        )

    # --- the call ---

    async def _outcome(self, open_one: OpenApproval) -> DetachedOutcome:
        approval = open_one.approval
        try:
            session = await self._session(open_one)
            return session if isinstance(session, DetachedOutcome) else await self._carry(session, approval)
        except HostError as error:
            return DetachedOutcome(status="rejected", code=error.code, error=error.message)
        except Exception:  # noqa: BLE001 -- the boundary to the executor: whatever went wrong, the conversation is told
            _log.exception("an approved call failed", approval=approval.approval_id, run=approval.run_id)
            return DetachedOutcome(status="unknown", code="outcome_unknown", error="the host failed while it did this")

    async def _session(self, open_one: OpenApproval) -> RunSession | DetachedOutcome:
        """What the call is made under; or what is known of it without making it."""
        approval = open_one.approval
        before = await asyncio.to_thread(self._store.tool_call, approval.run_id, approval.call_id)
        if before is not None:  # it was begun before the host went away: once is enough
            if before.status == "started":
                return DetachedOutcome(
                    status="unknown", code="outcome_unknown", error="the host went away while it did this"
                )
            return _recorded(before)
        if self._clock.now_ms() >= approval.expires_ms:
            return DetachedOutcome(status="expired", code="approval_expired", error="it was not done before it expired")
        agents, place = self._agents, (approval.agent_id, approval.workspace)
        await self._wait_for(lambda: agents.get(*place) is not None)
        agent = agents.get(*place)
        if agent is None:
            raise _refused("its agent is not there any more")
        grant, revoked = await self._control.grant_of(approval.run_id)
        if grant.sha256 != approval.grant_sha256:
            raise _refused("the grant of its run is not the one that was shown")
        if _taken(revoked, approval):
            raise _refused("it was taken away from the run")
        graph = await asyncio.to_thread(load_graph, self._store, approval.workspace, grant.graph_sha256)
        if graph is None:
            raise _refused("what its run could call is not known any more")
        await self._wait_for(lambda: self._offered(approval.workspace, approval.capability))
        return open_session(grant, graph, policy_of(agent.policy, unattended=False))

    async def _wait_for(self, there: Callable[[], bool]) -> None:
        """After a start a plugin, an agent or a server may need a moment until it is there again."""
        give_up_at = self._clock.monotonic() + DETACHED_WAIT_S
        while self._clock.monotonic() < give_up_at:
            if there():
                return
            await asyncio.sleep(_LOOK_S)

    # --- the conversation ---

    async def _tell(self, approval: Approval, carried: DetachedOutcome) -> None:
        row = await self._insist(lambda: asyncio.to_thread(self._root, approval.run_id))
        if row is None:
            return
        await self._wait_for(lambda: self._agents.get(row.agent_id, row.workspace) is not None)
        event = await self._insist(lambda: asyncio.to_thread(self._event, approval, carried, row))
        await self._insist(lambda: self._raises(event, row.workspace, row.agent_id))

    def _root(self, run_id: str) -> RunRow | None:
        """The run that nobody called: what a called run asked for is told where it was begun, so that an agent that was
        called is never more than it was."""
        row = self._store.run(run_id)
        for _ in range(limits.CHILD_RUN_DEPTH):
            if row is None or row.parent_run_id is None:
                break
            row = self._store.run(row.parent_run_id)
        return row

    def _event(self, approval: Approval, carried: DetachedOutcome, row: RunRow) -> NewEvent:
        facts = _facts(row.facts)
        data: JsonObject = {
            "approval_id": approval.approval_id,
            "call_id": approval.call_id,
            "run_id": approval.run_id,
            "capability": approval.capability,
            "name": approval.name,
            **carried.data(),
        }
        if carried.result is not None and len(encode_data(carried.result)) < EVENT_DATA_BYTES // 2:
            data["result"] = carried.result
        first = self._first_event(row)
        return NewEvent(
            source=f"{OWN_SOURCE}approvals",
            source_id=approval.approval_id,
            event_type="approval.decided",
            trigger="system",
            bot=row.bot,
            conversation=row.conversation,
            thread=row.thread,
            actor_type=facts.actor_type,
            actor_id=facts.actor_id,
            surface="system" if first is None else first.surface,
            reply=None if first is None else first.reply,
            data=data,
            carries=approval.flow | carried.flow,
            known=True,
        )

    def _first_event(self, row: RunRow) -> NewEvent | None:
        """What the run was for: its answer went where this one goes."""
        event = self._store.event(row.workspace, row.event_id)
        records = [] if event is None else self._store.records(event.record_id - 1, 1)
        return NewEvent.from_record(records[0].data)[1] if records and records[0].data is not None else None

    async def _insist(self, step: Callable[[], Awaitable[T]]) -> T:
        """What somebody said yes to is not given up because the store is busy."""
        wait_s = _AGAIN_S
        while True:
            try:
                return await step()
            except HostError as error:
                _log.warning("an approved call could not be told of yet", problem=error.message)
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, _AGAIN_MAX_S)

    async def close(self) -> None:
        await self._background.close()


def _taken(revoked: Revocation, approval: Approval) -> bool:
    """Whether it was taken away from its run, by whichever name the run had it."""
    own = approval.capability.partition(":")[2]
    match approval.kind:
        case "channel":
            return revoked.takes("platform.request", "platform", own.partition("/")[2])
        case "agent":
            return revoked.takes("agents.call", "agents", own) or revoked.takes(
                "tools.call", "tools", approval.capability
            )
        case _:
            return revoked.takes("tools.call", "tools", approval.capability)


def _refused(why: str) -> CapabilityDenied:
    return CapabilityDenied(f"somebody said yes, and it was not done: {why}", hint="let the agent ask again")


def _recorded(row: ToolCallRow) -> DetachedOutcome:
    """What came of a call that has ended before."""
    end = _End() if row.result is None else _end(row.result)
    result: JsonObject = {"content": end.content, "is_error": end.is_error, "artifact_refs": end.artifact_refs}
    if end.structured is not None:
        result["structured"] = end.structured
    return DetachedOutcome(status=row.status, code=end.code, error=end.message, result=result, flow=row.flow)
