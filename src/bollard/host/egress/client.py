"""The one way out of the host. A name is looked up once, every address that it has must be outside, and one of those
very addresses is connected to; each hop that an answer sends on to is judged anew. No proxy of the environment is used.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from bollard.host.egress.addresses import Address, AllowList, address_problem, host_problem, literal, parse_allow
from bollard.host.egress.exchange import NotAnswered, NotSent, connected, exchange
from bollard.host.egress.places import (
    SAFE_METHODS,
    EgressRequest,
    EgressResponse,
    Place,
    SentOn,
    check_request,
    sent_on,
)
from bollard.host.egress.resolver import Resolver, SystemResolver
from bollard.host.errors import EgressDenied, OutcomeUnknown, SettingsError, ToolFailed
from bollard.host.limits import (
    EGRESS_ADDRESSES,
    EGRESS_ANSWER_S,
    EGRESS_AT_ONCE,
    EGRESS_BODY_BYTES,
    EGRESS_CONNECT_S,
    EGRESS_REDIRECTS,
)

__all__ = ["EgressClient"]

_HINT: Final = "an operator can open it with the setting egress_allow"


class EgressClient:
    """One per host."""

    def __init__(
        self,
        allow: AllowList | None = None,
        resolver: Resolver | None = None,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
        at_once: int = EGRESS_AT_ONCE,
    ) -> None:
        self._allow = allow or AllowList()
        self._resolver = resolver or SystemResolver()
        self._make_tls = tls
        self._tls: ssl.SSLContext | None = None
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
        hop = SentOn(place=place, method=request.method, headers=request.headers, body=request.body)
        most = min(request.max_bytes, EGRESS_BODY_BYTES)
        loop = asyncio.get_running_loop()
        ends = loop.time() + min(request.timeout_s, EGRESS_ANSWER_S)
        changed = False
        """Whether something that changes the world has been answered already."""
        for left in range(min(request.redirects, EGRESS_REDIRECTS), -1, -1):
            try:
                response = await self._hop(hop, most, max(0.0, ends - loop.time()))
            except NotSent as error:
                if changed:
                    raise OutcomeUnknown(f"{hop.place.origin}: {error}", hint="look there what came of it") from error
                raise ToolFailed(f"{hop.place.origin}: {error}", hint="try again later") from error
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

    async def judge(self, place: Place) -> Sequence[Address]:
        """The addresses that a request to this place may go to. Raises `EgressDenied`, and `NotSent` where it has
        none."""
        self.check_host(place)
        try:
            async with asyncio.timeout(EGRESS_CONNECT_S):
                found = await self._resolver.addresses(place.host)
        except TimeoutError:
            raise NotSent(f"the name was not found within {EGRESS_CONNECT_S:g} s") from None
        except (OSError, UnicodeError, ValueError) as error:
            raise NotSent(f"the name has no address: {getattr(error, 'strerror', None) or error}") from error
        if not self._allow.names_host(place.host, place.port):
            for address in found:
                self._check(place, address)
        return list(found)[:EGRESS_ADDRESSES]

    def check_host(self, place: Place) -> None:
        """What can be said before anybody is asked. Raises `EgressDenied`."""
        if problem := host_problem(place.host):
            raise EgressDenied(problem, hint="use the name of the host, or its address as it is usually written")
        if (address := literal(place.host)) is not None:
            self._check(place, address)

    def _check(self, place: Place, address: Address) -> None:
        problem = address_problem(address)
        if problem is not None and not self._allow.has(address, place.port):
            raise EgressDenied(f"{place.host} must not be reached: {problem}", hint=_HINT)

    async def _hop(self, hop: SentOn, most: int, left_s: float) -> EgressResponse:
        loop = asyncio.get_running_loop()
        ends = loop.time() + left_s
        try:
            async with asyncio.timeout(left_s):
                await self._places.acquire()
        except TimeoutError:
            raise NotSent("too many requests outside are under way") from None
        try:
            addresses = await self.judge(hop.place)
            tls = self._context() if hop.place.scheme == "https" else None
            connect_s = min(EGRESS_CONNECT_S, max(0.0, ends - loop.time()))
            async with connected(addresses, hop, tls, connect_s) as streams:
                return await exchange(streams, hop, most, max(0.0, ends - loop.time()))
        finally:
            self._places.release()

    def _context(self) -> ssl.SSLContext:
        """Made when the first name with TLS is asked: it holds every authority that the system trusts."""
        if self._tls is None:
            self._tls = self._make_tls()
        return self._tls
