"""The HTTP client for all outgoing requests. A name is resolved once, all of its addresses must be public, and the
client connects to one of exactly these addresses, directly or through a proxy. Each redirect is checked again. Proxy
variables of other programs (`HTTPS_PROXY`) are ignored.
"""

import asyncio
import functools
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import structlog

from bollard.host.egress.addresses import AllowList, InvalidEntry, address_problem, host_problem, literal, parse_allow
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
from bollard.host.egress.proxy import Proxy, ProxyRules, Route, Tunnel
from bollard.host.errors import EgressDenied, OutcomeUnknown, SettingsError, ToolFailed, UnknownName, caused_by
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
from bollard.host.settings import Settings


class Resolver(Protocol):
    """Resolves a name, once per hop: the same addresses are checked and connected to."""

    async def addresses(self, host: str) -> Sequence[Address]:
        """Raises `OSError` if there are none."""
        ...


class SystemResolver:
    """The resolver of the machine. A lookup may block long after its caller gave up, so it has its own threads."""

    def __init__(self, lookup: Callable[..., Sequence[Any]] = socket.getaddrinfo) -> None:
        self._lookup = functools.partial(lookup, port=None, type=socket.SOCK_STREAM)
        self._threads = ThreadPoolExecutor(EGRESS_LOOKUPS, thread_name_prefix="lookup")

    async def addresses(self, host: str) -> Sequence[Address]:
        found = await asyncio.get_running_loop().run_in_executor(self._threads, self._lookup, host)
        return list(dict.fromkeys(ipaddress.ip_address(entry[4][0]) for entry in found))


Lookup = Callable[[Destination, float], Awaitable[Sequence[Address]]]
"""Resolves a place within so many seconds, and checks its addresses; raises `EgressDenied`."""
_log = structlog.get_logger("bollard.host.egress")


class EgressClient:
    """Sends requests to public addresses, and to those that an operator allows. One per host."""

    def __init__(
        self,
        allow: AllowList | None = None,
        resolver: Resolver | None = None,
        tls: Callable[[], ssl.SSLContext] = trusted,
        at_once: int = EGRESS_AT_ONCE,
        proxies: ProxyRules | None = None,
    ) -> None:
        self._allow = allow or AllowList()
        self._proxies = proxies or ProxyRules()
        self._resolver = resolver or SystemResolver()
        self._tls = tls
        self._places = asyncio.Semaphore(at_once)

    @classmethod
    def of_setting(cls, entries: Iterable[str], proxies: ProxyRules | None = None) -> "EgressClient":
        """Build the client from the setting `egress_allow`. Raises `SettingsError`."""
        try:
            return cls(parse_allow(entries), proxies=proxies)
        except InvalidEntry as error:
            raise SettingsError(
                f"egress_allow: the entry {error.entry!r} is invalid: {error}",
                reason="egress_allow_invalid",
                hint="use entries like 127.0.0.1:9000, chat.internal or 10.1.0.0/16",
                field="egress_allow",
                entry=error.entry,
            ) from error

    @classmethod
    def of_settings(cls, settings: Settings) -> "EgressClient":
        """Build the client from the settings of allowed addresses and of the proxy. Raises `SettingsError`."""
        proxies = ProxyRules.of_settings(
            proxy=settings.proxy,
            login=settings.proxy_login,
            no_proxy=settings.no_proxy,
            resolves=settings.proxy_resolves,
        )
        return cls.of_setting(settings.egress_allow, proxies)

    @property
    def has_proxy(self) -> bool:
        """Whether the settings name a proxy."""
        return self._proxies.proxy is not None

    async def fetch(self, request: EgressRequest, proxy: Proxy | None = None) -> EgressResponse:
        """Send a request, through `proxy` instead of the proxy of the host if given. Raises `EgressDenied`,
        `ToolFailed` if it had no effect, and `OutcomeUnknown` if it may have had one."""
        place = check_request(request)
        hop = Redirect(place=place, method=request.method, headers=request.headers, body=request.body)
        most = min(request.max_bytes, EGRESS_BODY_BYTES)
        loop = asyncio.get_running_loop()
        ends = loop.time() + min(request.timeout_s, EGRESS_ANSWER_S)
        changed = False
        """Whether an earlier hop may have had an effect."""
        for left in range(min(request.redirects, EGRESS_REDIRECTS), -1, -1):
            try:
                response = await self._hop(hop, most, max(0.0, ends - loop.time()), proxy)
            except EgressDenied as error:
                if changed:
                    raise _outcome_unknown(hop.place, caused_by(error)) from error
                raise
            except NotSent as error:
                inner = caused_by(error)
                details = {"problem": f"no connection: {error}", "problem_type": "net.no_connection", "inner": inner}
                if changed:
                    raise _outcome_unknown(hop.place, details) from error
                raise _request_failed(hop.place, details) from error
            except NotAnswered as error:
                if not changed and hop.method in SAFE_METHODS:
                    raise _request_failed(hop.place, caused_by(error)) from error
                raise _outcome_unknown(hop.place, caused_by(error)) from error
            following = sent_on(hop.place, hop, response) if request.redirects else None
            if following is None:
                return response
            if not left:
                break
            changed = changed or hop.method not in SAFE_METHODS
            hop = following
        raise EgressDenied(
            f"{place.origin} redirects more than {request.redirects} times",
            reason="too_many_redirects",
            hint="request the final address",
            origin=place.origin,
            limit=request.redirects,
        )

    async def judge(self, place: Destination, within_s: float, proxy: Proxy | None = None) -> Sequence[Route]:
        """The routes that a request may take. Raises `EgressDenied`, with the same sentence for private and unknown
        names."""
        self.check_host(place)
        return await self.route(place, within_s, self._lookup, proxy)

    async def route(
        self, place: Destination, within_s: float, lookup: Lookup, own: Proxy | None = None
    ) -> Sequence[Route]:
        """The routes to a destination whose addresses `lookup` resolves and checks: through the proxy of a model or
        channel, `own`, or through that of the host, or directly. Raises what `lookup` raises, and `NotSent`."""
        until = asyncio.get_running_loop().time() + within_s
        proxy = own or self._proxies.proxy
        if proxy is None or (own is None and self._proxies.skips_host(place)):
            return await lookup(place, within_s)
        targets: Sequence[Address | str] = [place.host]
        if literal(place.host) is not None or not self._proxies.resolves:
            try:
                found = targets = await lookup(place, within_s)
            except UnknownName as error:
                hint = "check the name; where only the proxy resolves names, an operator sets proxy_resolves"
                raise UnknownName(error.message, reason="not_resolved", hint=hint, host=place.host) from error
            if own is None and all(self._proxies.skips(address, place.port) for address in found):
                return found
        left_s = max(0.0, until - asyncio.get_running_loop().time())
        at = await self._proxy_addresses(proxy, left_s, is_checked=own is not None)
        tunnels = [Tunnel(proxy=proxy, at=each, target=target) for target in targets for each in at]
        return tunnels[:EGRESS_ADDRESSES]

    async def _proxy_addresses(self, proxy: Proxy, within_s: float, *, is_checked: bool) -> Sequence[Address]:
        """The operator sets the proxy of the host, so it may be inside. That of a model or channel obeys the address
        rules (ADR 0107)."""
        if is_checked:
            self.check_host(proxy.place)
            return await self._lookup(proxy.place, within_s)
        if (address := literal(proxy.host)) is not None:
            return [address]
        try:
            async with asyncio.timeout(within_s):
                return await self._resolver.addresses(proxy.host)
        except (OSError, UnicodeError, ValueError) as error:  # including a timeout
            _log.warning("the proxy has no address", host=proxy.host, problem=str(error))
            raise NotSent("the name of the proxy has no address", "net.proxy_no_address") from error

    async def _lookup(self, place: Destination, within_s: float) -> Sequence[Address]:
        if (address := literal(place.host)) is not None:
            return [address]
        try:
            async with asyncio.timeout(within_s):
                found = await self._resolver.addresses(place.host)
        except (OSError, UnicodeError, ValueError) as error:  # including a timeout
            _log.debug("a name has no address", host=place.host, problem=str(error))
            raise _not_public(UnknownName, place) from None
        if not self._allow.names_host(place.host, place.port):
            for address in found:
                if (problem := self._problem(place, address)) is not None:
                    _log.info("a name has a private address", host=place.host, problem=problem)
                    raise _not_public(EgressDenied, place)
        return list(found)[:EGRESS_ADDRESSES]

    def check_host(self, place: Destination) -> None:
        """Check the host without a lookup. Raises `EgressDenied`."""
        if problem := host_problem(place.host):
            raise EgressDenied(
                problem,
                reason="host_invalid",
                hint="use the name of the host, or its address in the usual notation",
                problem=problem,
            )
        if (address := literal(place.host)) is not None and (problem := self._problem(place, address)) is not None:
            raise EgressDenied(
                f"{place.host} must not be reached: {problem}, and the setting egress_allow does not name it",
                reason="address_denied",
                hint=_allow_hint(place),
                host=place.host,
                problem=problem,
                entry=_entry(place),
            )

    def _problem(self, place: Destination, address: Address) -> str | None:
        return None if self._allow.has(address, place.port) else address_problem(address)

    async def _hop(self, hop: Redirect, most: int, left_s: float, proxy: Proxy | None) -> EgressResponse:
        loop = asyncio.get_running_loop()
        ends = loop.time() + left_s
        try:
            async with asyncio.timeout(left_s):
                await self._places.acquire()
        except TimeoutError:
            raise NotSent("too many outgoing requests are active", "net.too_many") from None
        try:
            left_s = max(0.0, ends - loop.time())
            judge = functools.partial(self.judge, proxy=proxy)
            connections = Connections(hop.place, min(EGRESS_CONNECT_S, left_s), judge, self._tls, keeps=False)
            request = HttpRequest(
                method=hop.method,
                path=hop.place.path,
                headers=hop.headers,
                body=hop.body,
                first_s=left_s,
                until=ends,
                idle_s=left_s,
                head_bytes=EGRESS_HEAD_BYTES,
                body_bytes=most + PIECE_BYTES,  # a longer body is truncated below, which is not an error
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
    """The body, up to slightly more than `most` bytes. A body that ends early is returned as received."""
    body = bytearray()
    try:
        while len(body) <= most and (piece := await answer.read()):
            body += piece
    except NotAnswered as error:
        if error.reason != "closed":
            raise
    return bytes(body)


def _outcome_unknown(place: Destination, details: Mapping[str, Any]) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"{place.origin}: {details['problem']}",
        reason="request_outcome_unknown",
        hint="check there whether the request had an effect",
        origin=place.origin,
        **details,
    )


def _request_failed(place: Destination, details: Mapping[str, Any]) -> ToolFailed:
    return ToolFailed(
        f"{place.origin}: {details['problem']}",
        reason="request_failed",
        hint="retry later",
        origin=place.origin,
        **details,
    )


def _not_public(kind: type[EgressDenied], place: Destination) -> EgressDenied:
    """The error for a name without a public address. The message names the setting, because a runner gets no hint."""
    return kind(
        f"{place.host} cannot be reached: it has no address, or one that is not globally routable and that the setting "
        "egress_allow does not name",
        reason="not_public",
        hint=f"check the name; {_allow_hint(place)}",
        host=place.host,
        entry=_entry(place),
    )


def _entry(place: Destination) -> str:
    """The narrowest entry of `egress_allow` for a destination."""
    return f"{f'[{place.host}]' if ':' in place.host else place.host}:{place.port}"


def _allow_hint(place: Destination) -> str:
    return f"an operator can allow it: add {_entry(place)} to egress_allow, and restart the host"
