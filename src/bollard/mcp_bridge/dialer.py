"""Connections to HTTP servers: directly, or through the proxy of the host. The host resolves each destination and names
the routes (ADR 0107), so that this process needs no name server."""

import asyncio
import itertools
import os
import socket
from collections.abc import Callable, Iterable
from errno import errorcode
from typing import cast

import httpcore2
import httpx2

from bollard.mcp_bridge.fault import Fault, FaultRaised, fault
from bollard.mcp_bridge.limits import CONNECT_S
from bollard.wire import bridge_frames as frames
from bollard.wire.proxy_handshake import ProxyFailed, connect_through


class _NotConnected(FaultRaised, httpx2.ConnectError):
    """No route leads to the server."""

    def __init__(self, why: Fault) -> None:
        super().__init__(why.problem)
        self.fault = why


class Dialer(httpcore2.AsyncNetworkBackend):
    """Asks the host for the routes of each new connection. One per bridge."""

    def __init__(self, send: Callable[[frames.Dial], None]) -> None:
        self._send = send
        self._direct = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[frames.Routes]] = {}

    def answered(self, routes: frames.Routes) -> None:
        """Take the answer of the host."""
        if (asked := self._asked.get(routes.number)) is not None and not asked.done():
            asked.set_result(routes)

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 -- the signature of the library
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        until = asyncio.get_running_loop().time() + (timeout or CONNECT_S)
        try:
            async with asyncio.timeout_at(until):
                routes = await self._routes(host, port, timeout or CONNECT_S)
        except TimeoutError:
            raise httpcore2.ConnectTimeout from None
        if routes.problem:
            raise _NotConnected(Fault(routes.problem, routes.details))
        ways = [*routes.proxies, *routes.addresses]
        last = fault("no answer in time", "net.too_late")
        for at, way in enumerate(ways):
            left_s = until - asyncio.get_running_loop().time()
            try:
                async with asyncio.timeout(left_s / (len(ways) - at)):
                    if isinstance(way, str):
                        return await self._direct.connect_tcp(way, port, None, local_address, socket_options)
                    return await self._through(way, port, socket_options)
            except ProxyFailed as error:
                last = Fault(str(error), error.details)
            except httpcore2.ConnectError as error:
                inner = _cause_of(error)
                last = Fault(inner["problem"], inner)
            except (TimeoutError, httpcore2.TimeoutException):
                last = fault("no answer in time", "net.too_late")
        inner = {"problem": last.problem, **last.details}
        if routes.proxies:
            raise _NotConnected(fault(f"through the proxy: {last.problem}", "net.proxy", inner=inner))
        raise _NotConnected(fault(f"no connection: {last.problem}", "net.no_connection", inner=inner))

    async def _routes(self, host: str, port: int, within_s: float) -> frames.Routes:
        number = next(self._numbers)
        asked = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            self._send(frames.Dial(number=number, host=host, port=port, within_s=within_s))
            return await asked
        finally:
            del self._asked[number]

    async def _through(
        self, route: frames.ProxyRoute, port: int, socket_options: Iterable[httpcore2.SOCKET_OPTION] | None
    ) -> httpcore2.AsyncNetworkStream:
        stream = await self._direct.connect_tcp(route.host, route.port, socket_options=socket_options)
        try:
            await connect_through(_StreamPipe(stream), route.scheme, route.target, port, route.login)
        except BaseException:
            await stream.aclose()
            raise
        return stream


def _cause_of(error: BaseException) -> dict[str, str]:
    """The problem of the system behind an error, otherwise the words of the library."""
    each: BaseException | None = error
    while each is not None:
        if isinstance(each, BaseExceptionGroup):
            each = cast("BaseExceptionGroup[BaseException]", each).exceptions[0]
        if isinstance(each, socket.gaierror):
            return {"problem": "the name has no address", "problem_type": "net.no_address"}
        if isinstance(each, OSError) and (name := errorcode.get(each.errno or 0)) is not None:
            return {"problem": os.strerror(each.errno or 0), "problem_type": f"os.{name}"}
        each = each.__cause__ or each.__context__
    return {"problem": str(error) or type(error).__name__}


class _StreamPipe:
    """Bytes that a proxy sends too early go into the TLS handshake, which fails."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream

    async def send(self, data: bytes) -> None:
        await self._stream.write(data)

    async def receive(self, size: int) -> bytes:
        return await self._stream.read(size)
