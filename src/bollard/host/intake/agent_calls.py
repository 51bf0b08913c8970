"""`agents.call`: another agent as a function. It is a capability like any other, so it goes to the executor, which has
a child run made (`child_calls`); what the child said is then read from its own log."""

from bollard.host.actions.call import Call
from bollard.host.intake.child_calls import ChildCalls
from bollard.host.runapi.refusal import ApiRefused
from bollard.host.runapi.tool_calls import ToolCalls
from bollard.host.runs.live import LiveRun
from bollard.protocol import AgentInput, AgentsCall, ChildRunResult, JsonObject

__all__ = ["AgentCalls"]


class AgentCalls:
    """One per host."""

    def __init__(self, calls: ToolCalls, children: ChildCalls) -> None:
        self._calls = calls
        self._children = children

    async def call(self, run: LiveRun, params: AgentsCall) -> ChildRunResult:
        """How the child ended, well or not, and everything that it said."""
        call = Call(name=f"agent:{params.agent_id}", arguments=_arguments(params.input))
        if params.input.attachments:
            problem = "input.attachments: artifacts of one run are not readable by another agent's"
            raise ApiRefused("invalid_argument", problem, details={"field": "input.attachments"})
        outcome = await self._calls.carry_out(run, call)
        return await self._children.result(run.facts.run_id, outcome.call_id)


def _arguments(given: AgentInput) -> JsonObject:
    arguments: JsonObject = {"text": given.text or ""}
    if given.contents:
        arguments["contents"] = [element.to_wire() for element in given.contents]
    return arguments
