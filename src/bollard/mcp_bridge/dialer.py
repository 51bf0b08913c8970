"""Connections to HTTP servers. The host opens each of them and hands over its socket (ADR 0123), so that this process
needs neither a name server nor the right to connect."""

import asyncio
import itertools
import socket
from collections.abc import Callable, Iterable

import httpcore2
import httpx2
from anyio.abc import SocketStream
from httpcore2._backends.anyio import AnyIOStream  # the only stream of the library over a socket that is open

from bollard.mcp_bridge.fault import Fault, FaultRaised, fault
from bollard.mcp_bridge.limits import CONNECT_S
from bollard.wire import bridge_frames as frames


class _NotConnected(FaultRaised, httpx2.ConnectError):
    """No route leads to the server."""

    def __init__(self, why: Fault) -> None:
        super().__init__(why.problem)
        self.fault = why


_Answer = tuple[frames.Dialled, socket.socket | None]


class Dialer(httpcore2.AsyncNetworkBackend):
    """Asks the host for each new connection. One per bridge."""

    def __init__(self, send: Callable[[frames.Dial], None], take: Callable[[], socket.socket | None]) -> None:
        """`take` receives the socket that the host sent before its answer."""
        self._send = send
        self._take = take
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[_Answer]] = {}

    def answered(self, dialled: frames.Dialled) -> None:
        """Take the answer of the host, and its socket."""
        opened = None if dialled.problem else self._take()
        asked = self._asked.get(dialled.number)
        if asked is not None and not asked.done():
            asked.set_result((dialled, opened))
        elif opened is not None:
            opened.close()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 -- the signature of the library
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        del local_address, socket_options  # no request has them
        try:
            async with asyncio.timeout(timeout or CONNECT_S):
                dialled, opened = await self._ask(host, port, timeout or CONNECT_S)
        except TimeoutError:
            raise httpcore2.ConnectTimeout from None
        if dialled.problem:
            raise _NotConnected(Fault(dialled.problem, dialled.details))
        if opened is None:
            inner = {"problem_type": "os.EMFILE"}
            raise _NotConnected(fault("no connection: Too many open files", "net.no_connection", inner=inner))
        try:
            return AnyIOStream(await SocketStream.from_socket(opened))
        except BaseException:
            opened.close()
            raise

    async def _ask(self, host: str, port: int, within_s: float) -> _Answer:
        number = next(self._numbers)
        asked = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            self._send(frames.Dial(number=number, host=host, port=port, within_s=within_s))
            return await asked
        except BaseException:
            if asked.done() and not asked.cancelled() and (opened := asked.result()[1]) is not None:
                opened.close()
            raise
        finally:
            del self._asked[number]
