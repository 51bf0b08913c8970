"""Results over the channel: `Outlet` of the SDK on a `WorkerRun` of the wire."""

import asyncio

from bollard.protocol import JsonObject
from bollard.runtime.limits import SILENCED_PAUSE_S
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
        if not isinstance(kind, str) or not isinstance(data, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidResult(str(kind), "data", "a result has the name of its type and an object of data")
        try:
            await self._run.emit(kind, data)
        except PayloadTooLarge as error:
            raise ResultTooLarge(kind, error.size_bytes, error.limit_bytes) from error
        except FrameError as error:
            raise InvalidResult(kind, "data", error.detail) from error
        except ChannelClosed:
            # Abandoned, or the host is gone: the worker stays silent. A runner that never awaits anything else would
            # keep every other run from its turn.
            await asyncio.sleep(SILENCED_PAUSE_S)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidResult(kind, "data", f"is not JSON: {error}") from error
