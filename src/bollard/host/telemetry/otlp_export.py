"""The export of spans to an OpenTelemetry collector over OTLP/HTTP: settings, connection and encoder."""

import contextlib
import gzip
import http.client
import socket
import ssl
import struct
import threading
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

from bollard.host.dial import Dial, open_connection
from bollard.host.errors import SettingsError, caused_by
from bollard.host.limits import SPAN_RETRY_S, SPAN_SEND_S
from bollard.host.telemetry.tracer import Attribute, Span

# The connection to an OpenTelemetry collector: its address, the standard variables, and the request for a batch.


_PATH: Final = "/v1/traces"
_VARIABLES: Final = "OTEL_EXPORTER_OTLP_"
_TRY_AGAIN: Final = frozenset({429, 502, 503, 504})
_OK: Final = range(200, 300)
_BROKEN: Final = (OSError, http.client.HTTPException)


class Collector(msgspec.Struct, frozen=True):
    """A collector that accepts OTLP over HTTP."""

    host: str
    port: int | None
    path: str
    tls: ssl.SSLContext | None
    compressed: bool = False
    headers: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    resource: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """The operator's description of this service."""


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
    """The variable for traces, otherwise the general one."""
    return environment.get(f"{_VARIABLES}TRACES_{name}") or environment.get(_VARIABLES + name, "")


def _pairs(text: str) -> dict[str, str]:
    """Parse `key=value,key=value` with percent-encoded values. Invalid pairs are skipped, as the standard requires."""
    pairs = (each.partition("=") for each in text.split(","))
    return {key.strip(): unquote(value.strip()) for key, equals, value in pairs if equals and key.strip()}


def _tls(environment: Mapping[str, str]) -> ssl.SSLContext:
    authority, certificate = _value(environment, "CERTIFICATE"), _value(environment, "CLIENT_CERTIFICATE")
    try:
        context = ssl.create_default_context(cafile=authority or None)
        if certificate:
            context.load_cert_chain(certificate, _value(environment, "CLIENT_KEY") or None)
    except OSError as error:  # ssl raises it too
        names = f"{_VARIABLES}CERTIFICATE, {_VARIABLES}CLIENT_CERTIFICATE, {_VARIABLES}CLIENT_KEY"
        raise SettingsError(
            f"the certificates of the trace collector cannot be used: {error}",
            reason="otel_certificates_unusable",
            hint=f"check {names}",
            field="otel_endpoint",
            **caused_by(error),
            names=names,
        ) from error
    return context


class CollectorLink:
    """A keep-alive connection to the collector. Used by one thread; `give_up` may be called by another."""

    def __init__(
        self,
        collector: Collector,
        *,
        within_s: float = SPAN_SEND_S,
        pause_s: float = SPAN_RETRY_S,
        dial: Dial = socket.create_connection,
    ) -> None:
        self._dial = dial
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
        """Stop all retries."""
        self._given_up.set()

    def send(self, body: bytes) -> bool:
        """Send a batch; returns whether the collector accepted it in time. Network errors do not raise."""
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
        """The HTTP status; `None` without a response. A connection that the server closed is replaced at once."""
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
        return open_connection(where.host, where.port, tls=where.tls, within_s=self._within_s, dial=self._dial)

    def hang_up(self) -> None:
        """Close the connection, in the sending thread; the next batch opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


# Spans as OpenTelemetry's collectors read them: one `ExportTraceServiceRequest` of protobuf. Pure.
#
# Written out by hand, because a span is a dozen short fields and OpenTelemetry's own encoder takes ten times as long
# for them, on the interpreter that runs the host. The numbers are the field numbers of `opentelemetry/proto/trace/v1`.


_KINDS: Final = {"internal": b"\x30\x01", "server": b"\x30\x02", "client": b"\x30\x03"}
_TIMES: Final = struct.Struct("<BQBQ")
_DOUBLE: Final = struct.Struct("<Bd")
_SAMPLED: Final = b"\x85\x01" + struct.pack("<I", 0x101)  # flags: sampled, and created in this process
_STATUS_ERROR: Final = b"\x18\x02"
_ONE_BYTE: Final = 0x80
_KEYS_KEPT: Final = 512
"""The cache of encoded attribute names; there are a few dozen."""


class SpanEncoder:
    """Encodes spans of one host, with its resource and scope."""

    def __init__(self, resource: Mapping[str, Attribute], *, scope: str, version: str) -> None:
        self._resource = _field(0x0A, b"".join(_field(0x0A, _pair(*each)) for each in resource.items()))
        self._scope = _field(0x0A, _field(0x0A, scope.encode()) + _field(0x12, version.encode()))

    def __call__(self, spans: Sequence[Span]) -> bytes:
        of_scope = self._scope + b"".join([_field(0x12, _span(span)) for span in spans])
        return _field(0x0A, self._resource + _field(0x12, of_scope))


def _span(span: Span) -> bytes:
    context = span.context
    parts = [b"\x0a\x10", bytes.fromhex(context.trace_id), b"\x12\x08", bytes.fromhex(context.span_id)]
    if span.parent_id is not None:
        parts += (b"\x22\x08", bytes.fromhex(span.parent_id))
    parts += (_field(0x2A, _utf8(span.name)), _KINDS[span.kind])
    parts.append(_TIMES.pack(0x39, span.start_ns, 0x41, span.end_ns))
    attributes = span.attributes
    if span.error is not None:
        attributes = {**attributes, "error.type": span.error}
        parts.append(_field(0x7A, _field(0x12, _utf8(span.error)) + _STATUS_ERROR))
    parts += [_attribute(key, value) for key, value in attributes.items()]
    parts.append(_SAMPLED)  # spans that are not sampled never get here
    return b"".join(parts)


def _attribute(key: str, value: Attribute) -> bytes:
    name = _key(key)
    if isinstance(value, str):  # most values are short texts, so they are written at once
        text = _utf8(value)
        size = len(text)
        whole = len(name) + size + 4
        if whole < _ONE_BYTE:
            return b"\x4a%c%b\x12%c\x0a%c%b" % (whole, name, size + 2, size, text)
    return _field(0x4A, _pair(key, value))


def _pair(key: str, value: Attribute) -> bytes:
    if isinstance(value, str):
        found = _field(0x0A, _utf8(value))
    elif isinstance(value, bool):
        found = b"\x10\x01" if value else b"\x10\x00"
    elif isinstance(value, int):
        found = b"\x18" + _varint(value & 0xFFFF_FFFF_FFFF_FFFF)
    else:
        found = _DOUBLE.pack(0x21, value)
    return _key(key) + _field(0x12, found)


@lru_cache(_KEYS_KEPT)
def _key(key: str) -> bytes:
    return _field(0x0A, _utf8(key))


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")  # half a surrogate pair in a name must not cost the whole batch


def _field(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < _ONE_BYTE:
        return bytes((tag, size)) + content
    return bytes((tag,)) + _varint(size) + content


def _varint(number: int) -> bytes:
    if number < _ONE_BYTE:
        return bytes((number,))
    found = bytearray()
    while number >= _ONE_BYTE:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


class SpanSender(msgspec.Struct, frozen=True):
    """Used by one thread."""

    encode: SpanEncoder
    link: CollectorLink

    def send(self, spans: Sequence[Span]) -> bool:
        """Send spans; returns whether the collector accepted them."""
        return self.link.send(self.encode(spans))


def open_sender(
    endpoint: str, *, version: str, instance: str, environment: Mapping[str, str], dial: Dial
) -> SpanSender:
    """Raises `SettingsError` for certificates that cannot be read."""
    collector = collector_of(endpoint, environment)
    named = {"service.name": "bollard", "service.version": version, "service.instance.id": instance}
    encode = SpanEncoder({**named, **collector.resource}, scope="bollard.host", version=version)
    return SpanSender(encode, CollectorLink(collector, dial=dial))
