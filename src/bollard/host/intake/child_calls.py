"""Child runs: another agent as a function, with a ledger of its own, that ends with its parent."""

import asyncio

from bollard.host.agents.agent import AgentBook
from bollard.host.grants.check import NOT_FOUND
from bollard.host.intake.accepted import Accepted
from bollard.host.intake.intake import Intake
from bollard.host.limits import REPLAY_PAGE
from bollard.host.log.flow_bits import flow_told
from bollard.host.log.kill_points import kill_point
from bollard.host.log.records import data_of
from bollard.host.runapi.refusal import ApiRefused
from bollard.host.runs.control import hand_down
from bollard.host.runs.dispatcher import Dispatcher
from bollard.host.runs.event import RUN_SOURCE, NewEvent
from bollard.host.runs.live import LiveRun
from bollard.host.store.boundary import Store
from bollard.protocol import AgentsCall, ChildRunResult, JsonObject, JsonValue

__all__ = ["ChildCalls"]


class ChildCalls:
    """Starts child runs and waits for them."""

    def __init__(self, intake: Intake, dispatcher: Dispatcher, agents: AgentBook, store: Store) -> None:
        self._intake = intake
        self._dispatcher = dispatcher
        self._agents = agents
        self._store = store
        self._children: dict[str, dict[str, str]] = {}
        """By live run, the child of each of its calls."""

    async def call(self, run: LiveRun, params: AgentsCall, call_id: str) -> ChildRunResult:
        """The child's outcome when it has ended. Whoever stops waiting stops the child."""
        agent = self._agents.get(params.agent_id, run.facts.workspace)
        if agent is None:
            raise ApiRefused(NOT_FOUND["agents"].code, NOT_FOUND["agents"].sentence)
        facts = run.facts
        event = NewEvent(
            source=f"{RUN_SOURCE}{facts.run_id}",
            source_id=call_id,
            event_type="message.received",
            trigger="system",
            bot=facts.bot,  # with it, people and rooms of the same name elsewhere stay others
            text=params.input.text,
            contents=tuple(element.to_wire() for element in params.input.contents),
            actor_type=facts.actor_type,
            actor_id=facts.actor_id,
            surface="agent",
            traceparent=None if run.trace is None else run.trace.traceparent,
            carries=run.flow,
        )
        known = run.revoked
        creating = asyncio.ensure_future(self._intake.call(event, agent, run))
        try:
            accepted = await asyncio.shield(creating)
        except asyncio.CancelledError:
            creating.add_done_callback(self._stop_unwanted)
            raise
        kill_point("child.after_accept")
        child_id = accepted.run_id or ""
        self._remember(run, call_id, child_id)
        child = self._dispatcher.live.get(child_id)
        if child is not None and run.revoked is not known:
            hand_down(child, run.revoked, "parent")  # taken away while the child was on its way to the disk
        try:
            if child is not None:
                await asyncio.shield(child.done)
        except asyncio.CancelledError:
            await self._dispatcher.cancel(child_id, "cancelled")
            raise
        kill_point("child.after_end")
        outcome, flow = await asyncio.to_thread(self._outcome, child_id)
        run.take_in(flow)  # what it says may hold whatever it has seen
        return ChildRunResult.from_wire(outcome)

    async def result(self, run_id: str, call_id: str) -> ChildRunResult:
        """What the child of a call that has ended said, however much that is."""
        outcome, _ = await asyncio.to_thread(self._outcome, self._children[run_id][call_id])
        return ChildRunResult.from_wire(outcome)

    def _remember(self, run: LiveRun, call_id: str, child_id: str) -> None:
        run_id = run.facts.run_id
        if run_id not in self._children:
            self._children[run_id] = {}
            run.done.add_done_callback(lambda _: self._children.pop(run_id))
        self._children[run_id][call_id] = child_id

    def _stop_unwanted(self, creating: "asyncio.Future[Accepted]") -> None:
        """A child that was on its way to the disk when its caller gave up: it is stopped as soon as it is there."""
        if creating.cancelled() or creating.exception() is not None or creating.result().run_id is None:
            return
        if (child := self._dispatcher.live.get(creating.result().run_id or "")) is not None:
            child.cancel("cancelled")

    def _outcome(self, run_id: str) -> tuple[JsonObject, int]:
        """How the child ended, and everything it said; and what it had touched, as bits of `Flow`."""
        messages: list[JsonValue] = []
        after, ended, flow = 0, False, 0
        status, code = "failed", None
        while not ended and (rows := self._store.records_of_run(run_id, after, REPLAY_PAGE)):
            for row in rows:
                data = data_of(row)
                flow |= flow_told(row.type, data)
                if row.type == "message.completed":
                    messages.append(data.get("message"))
                elif row.type == "run.ended":
                    ended = True
                    status, code = str(data.get("status")), data.get("code")
            after = rows[-1].seq or 0
        return {"run_id": run_id, "status": status, "code": code, "messages": messages}, flow
