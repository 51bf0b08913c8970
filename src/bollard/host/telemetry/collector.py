"""The way to an OpenTelemetry collector: where it is, what the standard variables say of it, how a batch gets there."""

import contextlib
import gzip
import http.client
import ssl
import threading
import time
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from bollard.host.errors import SettingsError
from bollard.host.limits import SPAN_RETRY_S, SPAN_SEND_S

__all__ = ["Collector", "CollectorLink", "collector_of"]

_PATH: Final = "/v1/traces"
_VARIABLES: Final = "OTEL_EXPORTER_OTLP_"
_TRY_AGAIN: Final = frozenset({429, 502, 503, 504})
_OK: Final = range(200, 300)
_BROKEN: Final = (OSError, http.client.HTTPException)


class Collector(msgspec.Struct, frozen=True):
    """One that takes OTLP over HTTP."""

    host: str
    port: int | None
    path: str
    tls: ssl.SSLContext | None
    compressed: bool = False
    headers: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    resource: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """What the operator says of this service."""


def collector_of(endpoint: str, environment: Mapping[str, str]) -> Collector:
    """The collector at a base such as `http://127.0.0.1:4318`, as the `OTEL_…` variables describe it.

    Raises `SettingsError` for a certificate that cannot be read.
    """
    parts = urlsplit(endpoint)
    resource = _pairs(environment.get("OTEL_RESOURCE_ATTRIBUTES", ""))
    if name := environment.get("OTEL_SERVICE_NAME", ""):
        resource["service.name"] = name
    return Collector(
        host=parts.hostname or "",
        port=parts.port,
        path=parts.path.rstrip("/") + _PATH,
        tls=_tls(environment) if parts.scheme == "https" else None,
        compressed=_value(environment, "COMPRESSION") == "gzip",
        headers=_pairs(_value(environment, "HEADERS")),
        resource=resource,
    )


def _value(environment: Mapping[str, str], name: str) -> str:
    """What is said for traces, else what is said for everything."""
    return environment.get(f"{_VARIABLES}TRACES_{name}") or environment.get(_VARIABLES + name, "")


def _pairs(text: str) -> dict[str, str]:
    """`key=value,key=value`, values percent-encoded. What is not a pair is left out, as the standard says."""
    found = (each.partition("=") for each in text.split(","))
    return {key.strip(): unquote(value.strip()) for key, equals, value in found if equals and key.strip()}


def _tls(environment: Mapping[str, str]) -> ssl.SSLContext:
    authority, certificate = _value(environment, "CERTIFICATE"), _value(environment, "CLIENT_CERTIFICATE")
    try:
        context = ssl.create_default_context(cafile=authority or None)
        if certificate:
            context.load_cert_chain(certificate, _value(environment, "CLIENT_KEY") or None)
    except OSError as error:  # also what ssl raises
        message = f"the certificates for the collector of traces cannot be used: {error}"
        hint = f"see {_VARIABLES}CERTIFICATE, {_VARIABLES}CLIENT_CERTIFICATE and {_VARIABLES}CLIENT_KEY"
        raise SettingsError(message, hint=hint, field="otel_endpoint") from error
    return context


class CollectorLink:
    """One connection that is kept. Used by one thread; `give_up` may be called by another."""

    def __init__(self, collector: Collector, *, within_s: float = SPAN_SEND_S, pause_s: float = SPAN_RETRY_S) -> None:
        self._collector = collector
        self._within_s = within_s
        self._pause_s = pause_s
        self._given_up = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        kind = {"content-type": "application/x-protobuf"}
        self._headers = {**collector.headers, **kind}
        if collector.compressed:
            self._headers["content-encoding"] = "gzip"

    def give_up(self) -> None:
        """Try nothing again from now on."""
        self._given_up.set()

    def send(self, body: bytes) -> bool:
        """Whether the collector took it, in the time that a batch has. Never raises for what the network does."""
        if self._collector.compressed:
            body = gzip.compress(body)
        until = time.monotonic() + self._within_s
        while True:
            status = self._answer(body)
            if status is not None and status not in _TRY_AGAIN:
                return status in _OK
            if time.monotonic() + self._pause_s >= until or self._given_up.wait(self._pause_s):
                return False

    def _answer(self, body: bytes) -> int | None:
        """The status; nothing where none came. A kept connection that the other side closed is replaced at once."""
        kept = self._connection is not None
        with contextlib.suppress(*_BROKEN):
            return self._post(body)
        self.hang_up()
        if kept:
            with contextlib.suppress(*_BROKEN):
                return self._post(body)
            self.hang_up()
        return None

    def _post(self, body: bytes) -> int:
        connection = self._connection = self._connection or self._connect()
        connection.request("POST", self._collector.path, body, self._headers)
        with connection.getresponse() as response:
            response.read()
            return response.status

    def _connect(self) -> http.client.HTTPConnection:
        where = self._collector
        if where.tls is None:
            return http.client.HTTPConnection(where.host, where.port, timeout=self._within_s)
        return http.client.HTTPSConnection(where.host, where.port, timeout=self._within_s, context=where.tls)

    def hang_up(self) -> None:
        """For the thread that sends: the next batch needs a new connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
