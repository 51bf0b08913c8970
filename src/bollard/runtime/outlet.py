"""Results over the channel: `Outlet` of the SDK on a `WorkerRun` of the wire."""

from bollard.protocol import JsonObject
from bollard.sdk import InvalidResult, ResultTooLarge
from bollard.wire import ChannelClosed, FrameError, PayloadTooLarge, WorkerRun

__all__ = ["ChannelOutlet"]


class ChannelOutlet:
    """Results of one run. After the run is over, what a runner still sends goes nowhere."""

    __slots__ = ("_run", "offer_text")

    def __init__(self, run: WorkerRun) -> None:
        self._run = run
        self.offer_text = run.offer_text

    async def emit(self, kind: str, data: JsonObject) -> None:
        try:
            await self._run.emit(kind, data)
        except PayloadTooLarge as error:
            raise ResultTooLarge(kind, error.size_bytes, error.limit_bytes) from error
        except FrameError as error:
            raise InvalidResult(kind, "data", error.detail) from error
        except ChannelClosed:
            return  # abandoned, or the host is gone: the worker stays silent
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidResult(kind, "data", f"is not JSON: {error}") from error
