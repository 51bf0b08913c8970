"""The answer of a worker whose plugin cannot be loaded: the host learns the problem during the handshake."""

import asyncio
import contextlib
import json
from typing import Final, cast

from bollard.manifest import Problem
from bollard.protocol import JsonObject
from bollard.runtime.limits import REFUSAL_S
from bollard.runtime.problems import make_sendable
from bollard.wire import FrameError, IncomingCall, Notification, Peer, Transport

UNLOADABLE: Final = -32001
"""The JSON-RPC error code of the refusal."""


class PluginRefusal:
    """Answers the first request of the host with the problem, and closes. Implements `PeerListener`."""

    def __init__(self, transport: Transport, problem: Problem) -> None:
        self._problem = problem
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._peer = Peer(transport, self)

    async def serve(self) -> None:
        """Answer the host, if it asks in time."""
        self._peer.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REFUSAL_S):
                await self._closed

    def called(self, call: IncomingCall) -> None:
        problem = self._problem
        found = {"field": f"{problem.rule} {problem.where}: {problem.field}", "problem": problem.problem}
        data = make_sendable(json.dumps({"problems": [{**problem.details, **found}]}, ensure_ascii=False))
        call.fail(UNLOADABLE, make_sendable(str(problem)), cast("JsonObject", json.loads(data)))
        self._peer.close("the plugin cannot be loaded")

    def closed(self, reason: str) -> None:
        del reason
        if not self._closed.done():
            self._closed.set_result(None)

    # --- a host that has sent only its first request sends nothing of this ---

    def quick(self, frame: bytes) -> bool:
        del frame
        return False

    def noted(self, note: Notification, size: int) -> None:
        del note, size

    def faulted(self, fault: FrameError) -> None:
        del fault

    def batch_ended(self) -> None:
        return None
