"""`platform.request`: an action on the platform that an event came from, or on another channel of the workspace. It is
a capability like any other, so it goes to the executor."""

from bollard.host.actions.call import Call
from bollard.host.runapi.refusal import ApiRefused
from bollard.host.runapi.tool_calls import ToolCalls
from bollard.host.runs.live import LiveRun
from bollard.protocol import JsonObject, PlatformOutcome, PlatformRequest

__all__ = ["PlatformCalls"]


class PlatformCalls:
    """One per host."""

    def __init__(self, calls: ToolCalls) -> None:
        self._calls = calls

    async def request(self, run: LiveRun, params: PlatformRequest) -> PlatformOutcome:
        """What came of it, when somebody has allowed it and it was done."""
        capability_id, arguments = _meant(run, params)
        outcome = await self._calls.carry_out(run, Call(name=capability_id, arguments=arguments))
        return PlatformOutcome(call_id=outcome.call_id, outcome=outcome.status, result=outcome.structured)


def _meant(run: LiveRun, params: PlatformRequest) -> tuple[str, JsonObject]:
    """The capability and its arguments. Where no target is named, it is the one that answers go to."""
    answers = run.facts.deliver_to
    target = params.target or {}
    channel = target.get("channel", None if answers is None else answers.channel)
    where = target.get("target")
    if where is None and answers is not None and channel == answers.channel:
        where = answers.target
    if not isinstance(channel, str) or not isinstance(where, str):
        raise ApiRefused(
            "invalid_argument",
            "target names no place: the event came through no channel that could be meant",
            details={"field": "target"},
        )
    return f"channel:{channel}/{params.action}", {**(params.payload or {}), "target": where}
