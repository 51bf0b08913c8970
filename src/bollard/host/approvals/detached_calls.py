"""Detached calls: approved calls whose run has ended.

A detached call is made once, with exactly the approved bytes and under the grant of its run, unless that was revoked.
An event then reports the outcome to the conversation and starts another run. A crash at any point repeats neither: the
row of the call says whether it was begun, and the event has an idempotency key. `approval.used` is the last record.
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
from bollard.host.runs.event import APPROVALS_SOURCE, NewEvent
from bollard.host.scope import Scope
from bollard.host.store.action_rows import ToolCallRow
from bollard.host.store.rows import RunRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject, limits

T = TypeVar("T")
_log = structlog.get_logger("bollard.approvals")
_RETRY_S: Final = 1.0
"""Delay before the first retry of a step; doubled for each further one."""
_RETRY_MAX_S: Final = 60.0


class _End(msgspec.Struct, omit_defaults=True):
    """The reported fields of a record that ends a call."""

    content: list[Any] = []
    structured: Any = None
    is_error: bool = False
    artifact_refs: list[Any] = []
    code: str | None = None
    message: str | None = None


_end: Final = msgspec.json.Decoder(_End).decode
_POLL_S: Final = 0.2
_facts: Final = msgspec.json.Decoder(RunFacts).decode


class DetachedOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a detached call."""

    status: str
    """`completed`, `failed`, `rejected` or `unknown`, as for any call; `denied` or `expired` if no call was made."""
    code: str | None = None
    error: str | None = None
    result: JsonObject | None = None
    flow: int = 0
    """The data flow of the result, as bits of `Flow`."""

    def data(self) -> JsonObject:
        body: JsonObject = {"outcome": self.status}
        if self.code is not None:
            body["code"] = self.code
        if self.error is not None:
            body["error"] = self.error
        return body


class DetachedExecutor(Protocol):
    """Makes the call through the executor, which requests its permission as for any other call."""

    def __call__(self, session: RunSession, approval: Approval) -> Awaitable[DetachedOutcome]: ...


SubmitEvent = Callable[[NewEvent, str], Awaitable[object]]
"""Submits an event for an agent of a workspace. Idempotent."""
IsOffered = Callable[[str, str], bool]
"""Whether a capability can be called in a workspace now."""


class DetachedApprovals:
    """Makes approved calls whose run has ended, and reports their outcomes."""

    def __init__(
        self,
        *,
        registry: ApprovalRegistry,
        log: ApprovalLog,
        clock: Clock,
        store: Store,
        agents: AgentRegistry,
        control: RunControl,
        execute: DetachedExecutor,
        submit_event: SubmitEvent,
        is_offered: IsOffered,
    ) -> None:
        self._registry = registry
        self._log = log
        self._clock = clock
        self._store = store
        self._agents = agents
        self._control = control
        self._execute = execute
        self._submit_event = submit_event
        self._is_offered = is_offered
        self._slots = asyncio.Semaphore(DETACHED_AT_ONCE)
        self._background = Background()

    def begin(self, pending: OpenApproval) -> None:
        """Make a granted call. The grant is on disk."""
        if not pending.detached:
            pending.detached = True
            self._background.begin(self._process(pending))

    def denied(self, approval: Approval) -> None:
        """Report a denial to the conversation."""
        outcome = DetachedOutcome(status="denied", code="approval_denied", error="the call was denied")
        self._background.begin(self._report(approval, outcome))

    async def _process(self, pending: OpenApproval) -> None:
        approval = pending.approval
        async with self._slots:
            kill_point("approval.before_detached")
            outcome = await self._call(pending)
            kill_point("approval.after_detached")
        await self._report(approval, outcome)
        used: JsonObject = {
            "approval_id": approval.approval_id,
            "call_id": approval.call_id,
            "digest": approval.digest,
            "detached": True,
            **outcome.data(),
        }
        await self._retry(
            lambda: self._log.beside(approval, "approval.used", used, lambda: self._registry.remove(approval))
        )

    # --- the call ---

    async def _call(self, pending: OpenApproval) -> DetachedOutcome:
        approval = pending.approval
        try:
            session = await self._session(pending)
            return session if isinstance(session, DetachedOutcome) else await self._execute(session, approval)
        except HostError as error:
            return DetachedOutcome(status="rejected", code=error.code, error=error.message)
        except Exception:  # noqa: BLE001 -- the boundary to the executor: the conversation learns of every failure
            _log.exception("an approved call failed", approval=approval.approval_id, run=approval.run_id)
            return DetachedOutcome(status="unknown", code="outcome_unknown", error="the host failed during the call")

    async def _session(self, pending: OpenApproval) -> RunSession | DetachedOutcome:
        """The session for the call, or its outcome if the call was begun before or has expired."""
        approval = pending.approval
        before = await asyncio.to_thread(self._store.tool_call, approval.run_id, approval.call_id)
        if before is not None:  # begun before the restart: never made twice
            if before.status == "started":
                return DetachedOutcome(
                    status="unknown", code="outcome_unknown", error="the host stopped during the call"
                )
            return _recorded(before)
        if self._clock.now_ms() >= approval.expires_ms:
            return DetachedOutcome(
                status="expired", code="approval_expired", error="the approval expired before the call was made"
            )
        agents, key = self._agents, (approval.agent_id, approval.workspace)
        await self._wait_until(lambda: agents.get(*key) is not None)
        agent = agents.get(*key)
        if agent is None:
            raise _not_made("approved_agent_gone", "its agent no longer exists")
        grant, revoked = await self._control.grant_of(approval.run_id)
        if grant.sha256 != approval.grant_sha256:
            raise _not_made("approved_grant_changed", "the grant of its run is not the approved one")
        if _is_revoked(revoked, approval):
            raise _not_made("approved_call_revoked", "the capability was revoked from its run")
        graph = await asyncio.to_thread(load_graph, self._store, approval.workspace, grant.graph_sha256)
        if graph is None:
            raise _not_made("approved_graph_missing", "the capabilities of its run are no longer stored")
        await self._wait_until(lambda: self._is_offered(approval.workspace, approval.capability))
        return open_session(grant, graph, policy_of(agent.policy, unattended=False))

    async def _wait_until(self, is_ready: Callable[[], bool]) -> None:
        """Wait for a plugin, an agent or a server that is still starting, up to `DETACHED_WAIT_S`."""
        deadline = self._clock.monotonic() + DETACHED_WAIT_S
        while self._clock.monotonic() < deadline:
            if is_ready():
                return
            await asyncio.sleep(_POLL_S)

    # --- the conversation ---

    async def _report(self, approval: Approval, outcome: DetachedOutcome) -> None:
        row = await self._retry(lambda: asyncio.to_thread(self._root, approval.run_id))
        if row is None:
            return
        await self._wait_until(lambda: self._agents.get(row.agent_id, row.workspace) is not None)
        event = await self._retry(lambda: asyncio.to_thread(self._event, approval, outcome, row))
        await self._retry(lambda: self._submit_event(event, row.agent_id))

    def _root(self, run_id: str) -> RunRow | None:
        """The topmost parent run. A child run's outcome is reported there, so that a called agent gains no run of its
        own."""
        row = self._store.run(run_id)
        for _ in range(limits.CHILD_RUN_DEPTH):
            if row is None or row.parent_run_id is None:
                break
            row = self._store.run(row.parent_run_id)
        return row

    def _event(self, approval: Approval, outcome: DetachedOutcome, row: RunRow) -> NewEvent:
        facts = _facts(row.facts)
        data: JsonObject = {
            "approval_id": approval.approval_id,
            "call_id": approval.call_id,
            "run_id": approval.run_id,
            "capability": approval.capability,
            "name": approval.name,
            **outcome.data(),
        }
        if outcome.result is not None and len(encode_data(outcome.result)) < EVENT_DATA_BYTES // 2:
            data["result"] = outcome.result
        first = self._first_event(row)
        return NewEvent(
            source=APPROVALS_SOURCE,
            source_id=approval.approval_id,
            event_type="approval.decided",
            trigger="system",
            scope=Scope.of(row, facts.actor),
            surface="system" if first is None else first.surface,
            reply=None if first is None else first.reply,
            data=data,
            carries=approval.flow | outcome.flow,
            known=True,
        )

    def _first_event(self, row: RunRow) -> NewEvent | None:
        """The event that started the run. Its reply target is used again."""
        event = self._store.event(row.workspace, row.event_id)
        records = [] if event is None else self._store.records(event.record_id - 1, 1)
        data = records[0].data if records else None
        return None if data is None else NewEvent.from_record(data, row.workspace)[1]

    async def _retry(self, step: Callable[[], Awaitable[T]]) -> T:
        """Retry without limit: the report of an approved call is not dropped because the store is busy."""
        wait_s = _RETRY_S
        while True:
            try:
                return await step()
            except HostError as error:
                _log.warning("the outcome of an approved call could not be reported yet", problem=error.message)
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, _RETRY_MAX_S)

    async def close(self) -> None:
        await self._background.close()


def _is_revoked(revoked: Revocation, approval: Approval) -> bool:
    """Whether the capability was revoked, under any name by which the run could call it."""
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


def _not_made(reason: str, why: str) -> CapabilityDenied:
    return CapabilityDenied(
        f"the approved call was not made: {why}", reason=reason, hint="let the agent request it again"
    )


def _recorded(row: ToolCallRow) -> DetachedOutcome:
    """The recorded outcome of a call that has ended."""
    end = _End() if row.result is None else _end(row.result)
    result: JsonObject = {"content": end.content, "is_error": end.is_error, "artifact_refs": end.artifact_refs}
    if end.structured is not None:
        result["structured"] = end.structured
    return DetachedOutcome(status=row.status, code=end.code, error=end.message, result=result, flow=row.flow)
