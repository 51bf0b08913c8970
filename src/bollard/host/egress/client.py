"""The one way out of the host. A name is looked up once, every address that it has must be outside, and one of those
very addresses is connected to; each hop that an answer sends on to is judged anew. No proxy of the environment is used.
"""

import asyncio
import functools
import ipaddress
import socket
import ssl
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

import structlog

from bollard.host.egress.addresses import AllowList, address_problem, host_problem, literal, parse_allow
from bollard.host.egress.connections import (
    PIECE_BYTES,
    Connections,
    HttpAnswer,
    HttpRequest,
    NotAnswered,
    NotSent,
    trusted,
)
from bollard.host.egress.destination import (
    SAFE_METHODS,
    Address,
    Destination,
    EgressRequest,
    EgressResponse,
    Redirect,
    check_request,
    sent_on,
)
from bollard.host.errors import EgressDenied, OutcomeUnknown, SettingsError, ToolFailed, UnknownName
from bollard.host.limits import (
    EGRESS_ADDRESSES,
    EGRESS_ANSWER_S,
    EGRESS_AT_ONCE,
    EGRESS_BODY_BYTES,
    EGRESS_CONNECT_S,
    EGRESS_HEAD_BYTES,
    EGRESS_LOOKUPS,
    EGRESS_REDIRECTS,
)

# From a name to its addresses: the system's resolver, or one that a test fills.


class Resolver(Protocol):
    """Asked once for each hop: what it answers is what is judged, and what is connected to."""

    async def addresses(self, host: str) -> Sequence[Address]:
        """Raises `OSError` where there are none."""
        ...


class SystemResolver:
    """What the machine is configured with. It blocks, and for a name whose server says nothing it does so for long
    after nobody waits any more: so it has threads of its own, and no file of the host waits for them."""

    def __init__(self, lookup: Callable[..., Sequence[Any]] = socket.getaddrinfo) -> None:
        self._lookup = functools.partial(lookup, port=None, type=socket.SOCK_STREAM)
        self._threads = ThreadPoolExecutor(EGRESS_LOOKUPS, thread_name_prefix="lookup")

    async def addresses(self, host: str) -> Sequence[Address]:
        found = await asyncio.get_running_loop().run_in_executor(self._threads, self._lookup, host)
        return list(dict.fromkeys(ipaddress.ip_address(entry[4][0]) for entry in found))


_log = structlog.get_logger("bollard.host.egress")
_HINT: Final = "an operator can open it with the setting egress_allow"
_NAME_HINT: Final = "check the name; an operator can open a place inside with the setting egress_allow"


class EgressClient:
    """One per host."""

    def __init__(
        self,
        allow: AllowList | None = None,
        resolver: Resolver | None = None,
        tls: Callable[[], ssl.SSLContext] = trusted,
        at_once: int = EGRESS_AT_ONCE,
    ) -> None:
        self._allow = allow or AllowList()
        self._resolver = resolver or SystemResolver()
        self._tls = tls
        self._places = asyncio.Semaphore(at_once)

    @classmethod
    def of_setting(cls, entries: Iterable[str]) -> "EgressClient":
        """What an operator allows; raises `SettingsError`."""
        try:
            return cls(parse_allow(entries))
        except ValueError as error:
            raise SettingsError(
                f"egress_allow: {error}",
                hint="name places like 127.0.0.1:9000, chat.internal or 10.1.0.0/16",
                field="egress_allow",
            ) from error

    async def fetch(self, request: EgressRequest) -> EgressResponse:
        """Raises `EgressDenied`, `ToolFailed` where nothing arrived, and `OutcomeUnknown` where something may have."""
        place = check_request(request)
        hop = Redirect(place=place, method=request.method, headers=request.headers, body=request.body)
        most = min(request.max_bytes, EGRESS_BODY_BYTES)
        loop = asyncio.get_running_loop()
        ends = loop.time() + min(request.timeout_s, EGRESS_ANSWER_S)
        changed = False
        """Whether something that changes the world has been answered already."""
        for left in range(min(request.redirects, EGRESS_REDIRECTS), -1, -1):
            try:
                response = await self._hop(hop, most, max(0.0, ends - loop.time()))
            except EgressDenied as error:
                if changed:
                    raise OutcomeUnknown(error.message, hint="look there what came of it") from error
                raise
            except NotSent as error:
                message = f"{hop.place.origin}: no connection: {error}"
                if changed:
                    raise OutcomeUnknown(message, hint="look there what came of it") from error
                raise ToolFailed(message, hint="try again later") from error
            except NotAnswered as error:
                if not changed and hop.method in SAFE_METHODS:
                    raise ToolFailed(f"{hop.place.origin}: {error}", hint="try again later") from error
                raise OutcomeUnknown(f"{hop.place.origin}: {error}", hint="look there what came of it") from error
            following = sent_on(hop.place, hop, response) if request.redirects else None
            if following is None:
                return response
            if not left:
                break
            changed = changed or hop.method not in SAFE_METHODS
            hop = following
        raise EgressDenied(
            f"{place.origin} sends on more than {request.redirects} times", hint="ask for where it leads"
        )

    async def judge(self, place: Destination, within_s: float) -> Sequence[Address]:
        """The addresses that a request to this place may go to. Raises `EgressDenied`; whether a name is inside or
        unknown is nothing that its words say."""
        self.check_host(place)
        if (address := literal(place.host)) is not None:
            return [address]
        try:
            async with asyncio.timeout(within_s):
                found = await self._resolver.addresses(place.host)
        except (OSError, UnicodeError, ValueError) as error:  # among them the time that is up
            _log.debug("a name has no address", host=place.host, problem=str(error))
            raise UnknownName(_denied(place), hint=_NAME_HINT) from None
        if not self._allow.names_host(place.host, place.port):
            for address in found:
                if (problem := self._problem(place, address)) is not None:
                    _log.info("a name leads inside", host=place.host, problem=problem)
                    raise EgressDenied(_denied(place), hint=_NAME_HINT)
        return list(found)[:EGRESS_ADDRESSES]

    def check_host(self, place: Destination) -> None:
        """What can be said before anybody is asked. Raises `EgressDenied`."""
        if problem := host_problem(place.host):
            raise EgressDenied(problem, hint="use the name of the host, or its address as it is usually written")
        if (address := literal(place.host)) is not None and (problem := self._problem(place, address)) is not None:
            raise EgressDenied(f"{place.host} must not be reached: {problem}", hint=_HINT)

    def _problem(self, place: Destination, address: Address) -> str | None:
        return None if self._allow.has(address, place.port) else address_problem(address)

    async def _hop(self, hop: Redirect, most: int, left_s: float) -> EgressResponse:
        loop = asyncio.get_running_loop()
        ends = loop.time() + left_s
        try:
            async with asyncio.timeout(left_s):
                await self._places.acquire()
        except TimeoutError:
            raise NotSent("too many requests outside are under way") from None
        try:
            left_s = max(0.0, ends - loop.time())
            connections = Connections(hop.place, min(EGRESS_CONNECT_S, left_s), self.judge, self._tls, keeps=False)
            request = HttpRequest(
                method=hop.method,
                path=hop.place.path,
                headers=hop.headers,
                body=hop.body,
                first_s=left_s,
                until=ends,
                idle_s=left_s,
                head_bytes=EGRESS_HEAD_BYTES,
                body_bytes=most + PIECE_BYTES,  # a longer body is cut off below, and is no failure
            )
            async with connections.asked(request) as answer:
                body = b"" if hop.method == "HEAD" else await _body(answer, most)
                return EgressResponse(
                    url=hop.place.url,
                    status=answer.status,
                    headers=answer.headers,
                    body=body[:most],
                    truncated=len(body) > most,
                )
        finally:
            self._places.release()


async def _body(answer: HttpAnswer, most: int) -> bytes:
    """All of it, or more than `most` bytes. A body that ends too early is as long as it came."""
    found = bytearray()
    try:
        while len(found) <= most and (piece := await answer.read()):
            found += piece
    except NotAnswered as error:
        if error.reason != "closed":
            raise
    return bytes(found)


def _denied(place: Destination) -> str:
    return f"{place.host} cannot be reached: it has no address, or one that is not globally routable"
