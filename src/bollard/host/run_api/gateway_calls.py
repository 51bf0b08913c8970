"""Calls of the run API that come from an MCP client instead of a worker connection. They pass the same gate."""

import asyncio
from collections.abc import Callable

from bollard.host.runs.live_run import LiveRun
from bollard.protocol import RANGED_READS, AgentAPIError, JsonObject, JsonValue, limits
from bollard.wire import encode


class _GatewayCall:
    """Implements `ApiCall`."""

    streamed = False

    def __init__(self, action: str, params: JsonObject) -> None:
        self.action = action
        self.params = params
        self.given_up = False
        self.on_given_up: Callable[[], object] | None = None
        self.on_unread: Callable[[], object] | None = None
        self.answered: asyncio.Future[JsonValue | AgentAPIError] = asyncio.get_running_loop().create_future()

    def unfit(self, result: JsonValue) -> AgentAPIError | None:
        size = len(encode(result))
        limit = limits.FRAME_BYTES if self.action in RANGED_READS else limits.CALL_BYTES
        if size <= limit:
            return None
        message = f"the response has {size} bytes of JSON, the limit is {limit}"
        return AgentAPIError(code="payload_too_large", message=message)

    def answer(self, result: JsonValue) -> None:
        if not self.answered.done():
            self.answered.set_result(result)

    def refuse(self, error: AgentAPIError) -> None:
        if not self.answered.done():
            self.answered.set_result(error)

    def give_up(self) -> None:
        if self.given_up:
            return
        if self.answered.done():  # in this turn of the loop, so the caller has not received it
            if self.on_unread is not None:
                self.on_unread()
            return
        self.given_up = True
        self.refuse(AgentAPIError(code="cancelled", message="the caller cancelled the call"))
        if self.on_given_up is not None:
            self.on_given_up()


async def ask(run: LiveRun, action: str, params: JsonObject) -> JsonValue | AgentAPIError:
    """The response or the error of a call. Cancelling this, or the end of the run, cancels the call."""
    call = _GatewayCall(action, params)

    def over(_: object) -> None:
        call.give_up()

    run.called(call)
    run.done.add_done_callback(over)
    try:
        return await asyncio.shield(call.answered)
    except asyncio.CancelledError:
        call.give_up()
        raise
    finally:
        run.done.remove_done_callback(over)
