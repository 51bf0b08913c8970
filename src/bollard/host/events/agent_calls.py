"""Agents as tools of each other (`agent:ID`, `agents.call`). A call is a child run with a ledger of its own.

The grant of a child never exceeds that of its caller. The child starts with the flow bits of its caller, and the caller
takes over the child's bits with its result. Each action of the child is judged in the child, so the call itself has low
risk. A child run ends with its parent.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from pydantic import ValidationError

from bollard.host.actions.call import Call
from bollard.host.agents.agent import Agent, AgentRegistry
from bollard.host.capabilities.capability import NO_FLOW, Capability, CapabilityLimits
from bollard.host.capabilities.sources import CallOrder, CallResult
from bollard.host.errors import BudgetExceeded, InvalidRequest, ToolFailed
from bollard.host.events.acceptance import Accepted
from bollard.host.events.intake import Intake
from bollard.host.grants.check import NOT_FOUND
from bollard.host.limits import INPUT_TEXT_BYTES
from bollard.host.log.kill_points import kill_point
from bollard.host.reason import Why, why
from bollard.host.run_api.refusal import ApiRefused
from bollard.host.run_api.tools import ToolCalls
from bollard.host.runs.control import hand_down, lineage_of
from bollard.host.runs.dispatcher import Dispatcher
from bollard.host.runs.event import RUN_SOURCE, NewEvent
from bollard.host.runs.live_run import LiveRun
from bollard.host.runs.outcome import read_outcome
from bollard.host.scope import Scope
from bollard.host.store.store import Store
from bollard.protocol import AgentInput, AgentsCall, ChildRunResult, JsonObject, JsonValue, first_problem
from bollard.protocol.shape import problem_details


class ChildCalls:
    """Starts child runs and waits for them."""

    def __init__(self, intake: Intake, dispatcher: Dispatcher, agents: AgentRegistry, store: Store) -> None:
        self._intake = intake
        self._dispatcher = dispatcher
        self._agents = agents
        self._store = store
        self._children: dict[str, dict[str, str]] = {}
        """The child run of each call, by live run."""
        self._calls: dict[str, CallCounts] = {}
        """The calls of each live run."""

    async def call(self, run: LiveRun, params: AgentsCall, call_id: str) -> ChildRunResult:
        """Run the agent and return the outcome of the child. Cancelling the call cancels the child."""
        agent = self._agents.get(params.agent_id, run.facts.workspace)
        if agent is None:
            raise ApiRefused.of(NOT_FOUND["agents"])
        counts = self._counts(run)
        check_delegation(lineage_of(run, self._dispatcher.live), counts)
        counts.total += 1
        counts.active += 1
        try:
            return await self._call(run, agent, params, call_id)
        finally:
            counts.active -= 1

    def _counts(self, run: LiveRun) -> "CallCounts":
        run_id = run.facts.run_id
        if run_id not in self._calls:
            self._calls[run_id] = CallCounts()
            run.done.add_done_callback(lambda _: self._calls.pop(run_id))
        return self._calls[run_id]

    async def _call(self, run: LiveRun, agent: Agent, params: AgentsCall, call_id: str) -> ChildRunResult:
        facts = run.facts
        event = NewEvent(
            source=f"{RUN_SOURCE}{facts.run_id}",
            source_id=call_id,
            event_type="message.received",
            trigger="system",
            # The bot separates actors of the same name on other bots.
            scope=Scope(workspace=facts.workspace, bot=facts.bot, actor_type=facts.actor_type, actor_id=facts.actor_id),
            text=params.input.text,
            contents=tuple(element.to_wire() for element in params.input.contents),
            surface="agent",
            traceparent=None if run.trace is None else run.trace.traceparent,
            carries=run.flow,
        )
        revoked_before = run.revoked
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
        if child is not None and run.revoked is not revoked_before:
            hand_down(child, run.revoked, "parent")  # revoked while the child was being committed
        try:
            if child is not None:
                await asyncio.shield(child.done)
        except asyncio.CancelledError:
            await self._dispatcher.cancel(child_id, "cancelled")
            raise
        kill_point("child.after_end")
        outcome, flow = await asyncio.to_thread(self._outcome, child_id)
        run.take_in(flow)  # the answer may contain anything that the child has read
        return ChildRunResult.from_wire(outcome)

    async def result(self, run_id: str, call_id: str) -> ChildRunResult:
        """The full result of the child of a call that has ended."""
        outcome, _ = await asyncio.to_thread(self._outcome, self._children[run_id][call_id])
        return ChildRunResult.from_wire(outcome)

    def _remember(self, run: LiveRun, call_id: str, child_id: str) -> None:
        run_id = run.facts.run_id
        if run_id not in self._children:
            self._children[run_id] = {}
            run.done.add_done_callback(lambda _: self._children.pop(run_id))
        self._children[run_id][call_id] = child_id

    def _stop_unwanted(self, creating: "asyncio.Future[Accepted]") -> None:
        """Stop a child whose caller gave up while the child was being committed."""
        if creating.cancelled() or creating.exception() is not None or creating.result().run_id is None:
            return
        if (child := self._dispatcher.live.get(creating.result().run_id or "")) is not None:
            child.cancel("cancelled")

    def _outcome(self, run_id: str) -> tuple[JsonObject, int]:
        """The child's status and messages, and its bits of `Flow`. Blocks."""
        found = read_outcome(self._store, run_id)
        messages = [*found.messages]
        return {"run_id": run_id, "status": found.status, "code": found.code, "messages": messages}, found.flow


@dataclass(slots=True)
class CallCounts:
    """Calls of one run to other agents."""

    total: int = 0
    active: int = 0


def check_delegation(lineage: Sequence[LiveRun], counts: CallCounts) -> None:
    """Raises `BudgetExceeded` if the policy of the calling agent, or of one above it, forbids another call."""
    own = lineage[0].session.policy.delegation
    if own.parallel_calls is not None and counts.active >= own.parallel_calls:
        raise _delegation_limit("parallel_calls", own.parallel_calls, "calls agents at once", lineage[0])
    if own.iterations is not None and counts.total >= own.iterations:
        raise _delegation_limit("iterations", own.iterations, "has called agents", lineage[0])
    for below, run in enumerate(lineage):
        depth = run.session.policy.delegation.depth
        if depth is not None and below >= depth:
            raise _delegation_limit("depth", depth, "may have levels of runs below it", run)


def _delegation_limit(name: str, limit: int, what: str, run: LiveRun) -> BudgetExceeded:
    agent_id = run.facts.agent_id
    return BudgetExceeded(
        f"a run of agent {agent_id} {what}: {limit} at most",
        reason=f"delegation_{name}",
        hint=f"continue without this call, or raise policy.delegation.{name} of the agent",
        agent=agent_id,
        limit=limit,
    )


class AgentCalls:
    """The run API action `agents.call`. The executor calls the agent; the full result comes from the child's log."""

    def __init__(self, calls: ToolCalls, children: ChildCalls) -> None:
        self._calls = calls
        self._children = children

    async def call(self, run: LiveRun, params: AgentsCall) -> ChildRunResult:
        """The status of the child, also if it failed, and all of its messages."""
        call = Call(name=f"agent:{params.agent_id}", arguments=_arguments(params.input))
        if params.input.attachments:
            problem = "input.attachments: a child run cannot read artifacts of its caller"
            raise ApiRefused("invalid_argument", problem, details={"field": "input.attachments"})
        outcome = await self._calls.carry_out(run, call)
        return await self._children.result(run.facts.run_id, outcome.call_id)


def _arguments(agent_input: AgentInput) -> JsonObject:
    arguments: JsonObject = {"text": agent_input.text or ""}
    if agent_input.contents:
        arguments["contents"] = [element.to_wire() for element in agent_input.contents]
    return arguments


_PREFIX: Final = "agent:"
_MESSAGES: Final = 8
"""How many of the last messages of a child make up the result of the call."""
_CACHED_DEFINITIONS: Final = 4096
_ELEMENTS: Final = 64
"""Content elements in one call."""
_INPUT: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "text": {
            "type": "string",
            "maxLength": INPUT_TEXT_BYTES // 4,
            "description": "What the agent is told. It knows nothing else of this conversation.",
        },
        "contents": {
            "type": "array",
            "maxItems": _ELEMENTS,
            "items": {"type": "object"},
            "description": "Content elements, such as images, where text is not enough.",
        },
    },
    "required": ["text"],
    "additionalProperties": False,
}


class AgentTools:
    """Implements `CapabilitySource` and `Adapter`."""

    def __init__(self, agents: AgentRegistry, calls: ChildCalls, find: Callable[[str], LiveRun | None]) -> None:
        """`find` returns a live run of this host."""
        self._agents = agents
        self._calls = calls
        self._find = find

    @property
    def adapter(self) -> "AgentTools":
        return self

    @property
    def revision(self) -> int:
        return self._agents.changes

    def capabilities(self, workspace: str) -> Sequence[Capability]:
        return [agent_capability(agent) for agent in self._agents.of(workspace)]

    def absent(self, workspace: str) -> Mapping[str, Why]:
        """Saved agents whose runner is not running."""
        present = {agent.agent_id for agent in self._agents.of(workspace)}
        return {
            f"{_PREFIX}{agent.agent_id}": why(
                f"the runner {agent.runner_id} of agent {agent.agent_id} is not running",
                "agent.no_runner",
                runner=agent.runner_id,
                agent=agent.agent_id,
            )
            for agent in self._agents.saved(workspace)
            if agent.agent_id not in present
        }

    async def invoke(self, order: CallOrder) -> CallResult:
        run = self._find(order.context.run_id)
        if run is None:
            hint = "only a live run can call an agent"
            raise ToolFailed("the calling run has ended", reason="caller_ended", hint=hint)
        agent_id = order.capability.id.removeprefix(_PREFIX)
        try:
            params = AgentsCall(agent_id=agent_id, input=AgentInput.from_wire(order.arguments))
        except ValidationError as error:
            field, problem = first_problem(error)
            raise InvalidRequest(
                f"{field}: {problem}",
                reason="agent_input",
                hint="see content elements in the protocol reference",
                field=field,
                problem=problem,
                **problem_details(error),
            ) from error
        try:
            result = await self._calls.call(run, params, order.call_id)
        except ApiRefused as refused:
            raise ToolFailed(
                f"agent {agent_id} was not called: {refused}",
                reason="agent_not_called",
                hint="see the grant of this run",
                agent=agent_id,
                problem=str(refused),
            ) from refused
        return _call_result(agent_id, result)


def agent_capability(agent: Agent) -> Capability:
    description = (agent.description or {}).get("en_US") or f"Ask the agent {agent.label.get('en_US', agent.agent_id)}."
    return _capability(agent.agent_id, description, agent.deadline_s, agent.runner_id)


@lru_cache(maxsize=_CACHED_DEFINITIONS)
def _capability(agent_id: str, description: str, deadline_s: float, runner_id: str) -> Capability:
    return Capability(
        id=f"{_PREFIX}{agent_id}",
        name=agent_id,
        kind="agent",
        description=description,
        input_schema=_INPUT,
        risk="low",
        flow=NO_FLOW,
        effects="at_most_once",
        limits=CapabilityLimits(timeout_s=deadline_s),
        source="agents",
        version=runner_id,
    )


def _call_result(agent_id: str, result: ChildRunResult) -> CallResult:
    """The last messages of the child in order, and its status if it failed."""
    content = [element for message in result.messages[-_MESSAGES:] for element in _elements(message.to_wire())]
    failed = result.status != "completed"
    if failed:
        why = f" ({result.code})" if result.code else ""
        text: JsonObject = {"type": "text", "text": f"The run of {agent_id} ended as {result.status}{why}."}
        content.append(text)
    structured: JsonObject = {"run_id": result.run_id, "status": result.status}
    return CallResult(content=tuple(content), structured=structured, is_error=failed)


def _elements(message: JsonObject) -> list[JsonObject]:
    content: JsonValue = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
