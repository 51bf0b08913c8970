"""The run API over the channel: `ApiCaller` of the SDK on a `WorkerRun` of the wire."""

from collections.abc import AsyncGenerator, AsyncIterator

from bollard.protocol import AgentAPIError, ErrorCode, JsonObject, JsonValue
from bollard.sdk import AgentAPIException
from bollard.wire import ChannelClosed, FrameError, PayloadTooLarge, RemoteError, WireError, WorkerRun

__all__ = ["ChannelCaller"]

_NOT_JSON = (TypeError, ValueError, OverflowError, RecursionError)


def _exception(error: Exception) -> AgentAPIException:
    if isinstance(error, RemoteError):
        return AgentAPIException(error.api_error)
    code: ErrorCode = "runtime_error"
    if isinstance(error, ChannelClosed):
        code = "cancelled"
    elif isinstance(error, PayloadTooLarge):
        code = "payload_too_large"
    elif isinstance(error, (FrameError, *_NOT_JSON)):
        code = "invalid_argument"
    return AgentAPIException(AgentAPIError(code=code, message=str(error)))


class ChannelCaller:
    """Calls of one run."""

    __slots__ = ("_run",)

    def __init__(self, run: WorkerRun) -> None:
        self._run = run

    async def call(self, action: str, params: JsonObject) -> JsonValue:
        try:
            return await self._run.call(action, params)
        except (WireError, *_NOT_JSON) as error:
            raise _exception(error) from error

    async def stream(self, action: str, params: JsonObject) -> AsyncIterator[JsonValue]:
        chunks = self._run.stream(action, params)
        try:
            async for chunk in chunks:
                yield chunk
        except (WireError, *_NOT_JSON) as error:
            raise _exception(error) from error
        finally:
            # Now and not when it is collected: the host is to learn at once that nobody reads.
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()
