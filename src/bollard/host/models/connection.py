"""Connections to one provider: opened where a provider may be, kept for the next call, closed when nobody wants them.

Small on purpose: no proxies of the environment, no compression, no redirects. What an answer means is said elsewhere.
"""

import asyncio
import contextlib
import functools
import ssl
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence

from bollard.host.egress.addresses import Address, host_problem, literal
from bollard.host.egress.places import Place
from bollard.host.egress.resolver import Resolver, SystemResolver
from bollard.host.models.answer import Answer, Line, Request, Stale
from bollard.host.models.backend_limits import ADDRESSES, KEPT_CONNECTIONS, KEPT_S
from bollard.host.models.failures import failed
from bollard.host.models.provider_addresses import provider_problem

__all__ = ["Connections"]


@functools.cache
def _trusted() -> ssl.SSLContext:
    """Made when the first provider with TLS is asked, and once: it holds every authority that the system trusts."""
    return ssl.create_default_context()


@functools.cache
def _system_resolver() -> Resolver:
    """One for all providers: it has threads."""
    return SystemResolver()


class Connections:
    """Those to one provider."""

    def __init__(
        self,
        place: Place,
        connect_s: float,
        resolver: Callable[[], Resolver] = _system_resolver,
        tls: Callable[[], ssl.SSLContext] = _trusted,
    ) -> None:
        self._place = place
        self._connect_s = connect_s
        self._resolver = resolver
        self._tls = tls
        self._kept: deque[Line] = deque()
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    @contextlib.asynccontextmanager
    async def asked(self, request: Request) -> AsyncGenerator[Answer]:
        """Send it; the answer has its head. Leaving before its end closes the connection. Raises `ModelFailed`."""
        connection, answer = await self._answered(request)
        try:
            yield answer
        finally:
            self._release(connection, keep=answer.may_be_kept)

    async def close(self) -> None:
        """Nothing is kept any more; calls under way go on."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        while self._kept:
            connection = self._kept.pop()
            connection.drop()
            with contextlib.suppress(OSError):
                await connection.writer.wait_closed()

    async def _answered(self, request: Request) -> tuple[Line, Answer]:
        message = _message(self._place, request)
        kept = self._take()
        while True:
            connection = kept or await self._connect()
            try:
                connection.writer.write(message)  # not waited for: who refuses early reads no further
                answer = Answer(connection, request)
                await answer.head()
            except Stale:
                connection.drop()
                kept = None  # nothing of an answer came, and what is new cannot be stale
            except BaseException:
                connection.drop()
                raise
            else:
                return connection, answer

    async def _connect(self) -> Line:
        place = self._place
        tls = self._tls() if place.scheme == "https" else None
        name = place.host if tls is not None else None
        problem = "the name has no address"
        try:
            async with asyncio.timeout(self._connect_s):
                addresses = await self._addresses()
                for address in addresses:
                    try:
                        # One that takes no packets must leave time for the others.
                        async with asyncio.timeout(self._connect_s / len(addresses)):
                            streams = await asyncio.open_connection(
                                str(address), place.port, ssl=tls, server_hostname=name
                            )
                        return Line(*streams)
                    except OSError as error:  # among them every problem of TLS, and the time that is up
                        problem = getattr(error, "verify_message", "") or error.strerror or str(error) or "no answer"
        except TimeoutError:
            problem = "no answer"
        raise failed("unreachable", f"{place.origin}: no connection within {self._connect_s:g} s: {problem}")

    async def _addresses(self) -> Sequence[Address]:
        """A name is looked up once for each connection, and all of its addresses must be fit."""
        host = self._place.host
        if problem := host_problem(host):
            raise failed("invalid_request", problem, hint="put the provider's own address into base_url")
        try:
            known = literal(host)
            found = [known] if known is not None else await self._resolver().addresses(host)
        except TimeoutError:
            raise
        except (OSError, UnicodeError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise failed("unreachable", f"{self._place.origin}: the name has no address: {why}") from error
        for address in found:
            if problem := provider_problem(address):
                raise failed("invalid_request", f"{host}: {problem}", hint="put another address into base_url")
        return list(found)[:ADDRESSES]

    def _take(self) -> Line | None:
        """The one that was used last: it is the least likely to be closed by now."""
        while self._kept:
            connection = self._kept.pop()
            if connection.is_usable:
                return connection
            connection.drop()
        return None

    def _release(self, connection: Line, *, keep: bool) -> None:
        if not keep or self._closed or not connection.is_usable or len(self._kept) >= KEPT_CONNECTIONS:
            connection.drop()
            return
        loop = asyncio.get_running_loop()
        connection.kept_at = loop.time()
        self._kept.append(connection)
        if self._sweep is None:
            self._sweep = loop.call_later(KEPT_S, self._drop_old)

    def _drop_old(self) -> None:
        self._sweep = None
        loop = asyncio.get_running_loop()
        while self._kept and (self._kept[0].kept_at or 0.0) + KEPT_S <= loop.time():
            self._kept.popleft().drop()
        if self._kept:
            self._sweep = loop.call_at((self._kept[0].kept_at or 0.0) + KEPT_S, self._drop_old)


def _message(place: Place, request: Request) -> bytes:
    head = [f"POST {request.path} HTTP/1.1", f"host: {place.authority}", "accept-encoding: identity"]
    head += [f"{name}: {value}" for name, value in request.headers]
    head.append(f"content-length: {len(request.body)}")
    return "\r\n".join([*head, "", ""]).encode("latin-1") + request.body
