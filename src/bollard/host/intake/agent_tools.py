"""Agents of a workspace as tools of each other: `agent:ID`. A call is a child run with its own ledger.

The child may do nothing that its caller may not, and whatever it does is decided for the child, which begins with what
its caller has touched: so the call itself is no risk. What the child has touched comes back with what it says.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from pydantic import ValidationError

from bollard.host.agents.agent import Agent, AgentBook
from bollard.host.capabilities.capability import NO_FLOW, Capability, CapabilityLimits
from bollard.host.capabilities.sources import Order, Returned
from bollard.host.errors import InvalidRequest, ToolFailed
from bollard.host.intake.child_calls import ChildCalls
from bollard.host.limits import INPUT_TEXT_BYTES
from bollard.host.runapi.refusal import ApiRefused
from bollard.host.runs.live import LiveRun
from bollard.protocol import AgentInput, AgentsCall, ChildRunResult, JsonObject, JsonValue, first_problem

__all__ = ["AgentTools", "agent_capability"]

_PREFIX: Final = "agent:"
_MESSAGES: Final = 8
"""The last messages of a child, which are its answer."""
_KNOWN: Final = 4096
"""Agents whose definitions are not made again while nothing of them changed."""
_ELEMENTS: Final = 64
"""Content elements that an agent is told at once."""
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
    """Implements `Source` and `Adapter`. One per host."""

    def __init__(self, agents: AgentBook, calls: ChildCalls, find: Callable[[str], LiveRun | None]) -> None:
        """`find` gives a run of this host that is going on."""
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

    def absent(self, workspace: str) -> Mapping[str, str]:
        """Saved agents whose runner is not there."""
        there = {agent.agent_id for agent in self._agents.of(workspace)}
        return {
            f"{_PREFIX}{agent.agent_id}": f"the runner {agent.runner_id} of the agent {agent.agent_id} is not there"
            for agent in self._agents.saved(workspace)
            if agent.agent_id not in there
        }

    async def invoke(self, order: Order) -> Returned:
        run = self._find(order.context.run_id)
        if run is None:
            raise ToolFailed("the run that calls has ended", hint="an agent is called by a run that waits for it")
        agent_id = order.capability.id.removeprefix(_PREFIX)
        try:
            wanted = AgentsCall(agent_id=agent_id, input=AgentInput.from_wire(order.arguments))
        except ValidationError as error:
            field, problem = first_problem(error)
            raise InvalidRequest(f"{field}: {problem}", hint="see the protocol for elements of content") from error
        try:
            result = await self._calls.call(run, wanted, order.call_id)
        except ApiRefused as refused:
            raise ToolFailed(
                f"the agent {agent_id} was not called: {refused}", hint="see the grant of this run"
            ) from refused
        return _returned(agent_id, result)


def agent_capability(agent: Agent) -> Capability:
    said = (agent.description or {}).get("en_US") or f"Ask the agent {agent.label.get('en_US', agent.agent_id)}."
    return _described(agent.agent_id, said, agent.deadline_s, agent.runner_id)


@lru_cache(maxsize=_KNOWN)
def _described(agent_id: str, description: str, deadline_s: float, runner_id: str) -> Capability:
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


def _returned(agent_id: str, result: ChildRunResult) -> Returned:
    """What the child said last, in order; and how it ended, where that was not well."""
    content = [element for message in result.messages[-_MESSAGES:] for element in _elements(message.to_wire())]
    failed = result.status != "completed"
    if failed:
        why = f" ({result.code})" if result.code else ""
        text: JsonObject = {"type": "text", "text": f"The run of {agent_id} ended as {result.status}{why}."}
        content.append(text)
    told: JsonObject = {"run_id": result.run_id, "status": result.status}
    return Returned(content=tuple(content), structured=told, is_error=failed)


def _elements(message: JsonObject) -> list[JsonObject]:
    said: JsonValue = message.get("content")
    if isinstance(said, str):
        return [{"type": "text", "text": said}] if said else []
    return [each for each in said if isinstance(each, dict)] if isinstance(said, list) else []
