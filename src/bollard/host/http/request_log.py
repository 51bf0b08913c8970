"""Watches requests: counts them, and where somebody wants to know makes a span or a line in the log of each. A request
that nobody asks about costs one addition."""

from typing import Final, cast

import msgspec
import structlog
from starlette.requests import HTTPConnection
from starlette.types import Scope

from bollard.host.clock import Clock
from bollard.host.http.auth.callers import caller_in
from bollard.host.telemetry.counts import HttpCounts
from bollard.host.telemetry.tracer import OpenSpan, Tracer

_log = structlog.get_logger("bollard.host.access")
_SPAN: Final = "bollard.span"
_SERVER_ERRORS: Final = 500
_PROBES: Final = frozenset({"getHealth", "getReadiness", "readMetrics"})
"""What machines ask every few seconds: counted, and nothing more."""


class WatchedRequest(msgspec.Struct, frozen=True):
    """One that has begun."""

    span: OpenSpan | None
    started: float


class RequestWatch:
    """One for all operations."""

    def __init__(self, counts: HttpCounts, tracer: Tracer, clock: Clock, *, access_log: bool = False) -> None:
        self._counts: dict[str, list[int]] = {}
        self._all = counts
        self._tracer = tracer
        self._clock = clock
        self._access_log = access_log
        self.curious = access_log or tracer.on
        """Whether anybody wants more of a request than its count."""

    def begin(self, scope: Scope, operation: str) -> WatchedRequest | None:
        """Only where somebody is curious. What the request leads to is under its span."""
        if operation in _PROBES:
            return None
        span = None
        if self._tracer.on:
            span = scope[_SPAN] = self._tracer.begin(_header(scope))
        return WatchedRequest(span, self._clock.monotonic())

    def answered(self, operation: str, status: int) -> None:
        """The status is decided; a stream may go on for long."""
        counts = self._counts.get(operation)
        if counts is None:
            counts = self._counts[operation] = self._all.of(operation)
        counts[status // 100] += 1

    def end(self, watched: WatchedRequest, scope: Scope, operation: str, route: str, status: int) -> None:
        """The last byte has left. `route` has names where the path has ids."""
        method = str(scope["method"])
        if watched.span is not None:
            attributes = {
                "http.request.method": method,
                "http.route": route,
                "http.response.status_code": status,
                "url.path": str(scope["path"]),
                "bollard.operation": operation,
            }
            error = str(status) if status >= _SERVER_ERRORS else None
            self._tracer.end(watched.span, f"{method} {route}", "server", attributes, error)
        if self._access_log:
            caller = caller_in(scope)
            _log.info(
                "request",
                operation=operation,
                method=method,
                path=scope["path"],
                status=status,
                ms=round((self._clock.monotonic() - watched.started) * 1000, 1),
                caller=None if caller is None else caller.name,
                workspace=None if caller is None else caller.workspace,
                trace=None if watched.span is None else watched.span.context.trace_id,
            )


def traceparent_of(connection: HTTPConnection) -> str | None:
    """What an event that this request brings is under: the request's own span, or what the caller said."""
    span = cast("OpenSpan | None", connection.scope.get(_SPAN))
    return _header(connection.scope) if span is None else span.context.traceparent


def _header(scope: Scope) -> str | None:
    """As the server has it, because each run looks for it: names are in small letters already."""
    for name, value in scope["headers"]:
        if name == b"traceparent":
            return str(value, "latin-1")
    return None
