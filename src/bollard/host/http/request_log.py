"""Counts requests, and makes a span or an access log line of each where that is enabled. Otherwise a request costs one
addition."""

from typing import Final, cast

import msgspec
import structlog
from starlette.requests import HTTPConnection
from starlette.types import Scope

from bollard.host.clock import Clock
from bollard.host.http.answers import header_of
from bollard.host.http.auth.callers import caller_in
from bollard.host.telemetry.counts import HttpCounts
from bollard.host.telemetry.tracer import OpenSpan, Tracer

_log = structlog.get_logger("bollard.host.access")
_SPAN: Final = "bollard.span"
_SERVER_ERRORS: Final = 500
_PROBES: Final = frozenset({"getHealth", "getReadiness", "readMetrics"})
"""Operations that machines call every few seconds: only counted."""


class WatchedRequest(msgspec.Struct, frozen=True):
    """A request that has begun."""

    span: OpenSpan | None
    started: float


class RequestWatch:
    """Counts, traces and logs the requests of all operations."""

    def __init__(self, counts: HttpCounts, tracer: Tracer, clock: Clock, *, access_log: bool = False) -> None:
        self._counts: dict[str, list[int]] = {}
        self._all = counts
        self._tracer = tracer
        self._clock = clock
        self._access_log = access_log
        self.is_detailed = access_log or tracer.on
        """Whether requests are traced or logged."""

    def begin(self, scope: Scope, operation: str) -> WatchedRequest | None:
        """Begin the span of a request. Called only when `is_detailed`."""
        if operation in _PROBES:
            return None
        span = None
        if self._tracer.on:
            span = scope[_SPAN] = self._tracer.begin(header_of(scope, b"traceparent"))
        return WatchedRequest(span, self._clock.monotonic())

    def answered(self, operation: str, status: int) -> None:
        """Count a response when its status is known; a stream may continue for long."""
        counts = self._counts.get(operation)
        if counts is None:
            counts = self._counts[operation] = self._all.of(operation)
        counts[status // 100] += 1

    def end(self, watched: WatchedRequest, scope: Scope, operation: str, route: str, status: int) -> None:
        """End the span and write the log line, after the last byte. `route` is the path with placeholders."""
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
    """The parent of an event from this request: the span of the request, or the header of the caller."""
    span = cast("OpenSpan | None", connection.scope.get(_SPAN))
    return header_of(connection.scope, b"traceparent") if span is None else span.context.traceparent
