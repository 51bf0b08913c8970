"""Spans as OpenTelemetry's collectors read them: one `ExportTraceServiceRequest` of protobuf. Pure.

Written out by hand, because a span is a dozen short fields and OpenTelemetry's own encoder takes ten times as long for
them, on the interpreter that runs the host. The numbers are the field numbers of `opentelemetry/proto/trace/v1`.
"""

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from bollard.host.telemetry.tracer import Attribute, Span

__all__ = ["SpanEncoder"]

_KINDS: Final = {"internal": b"\x30\x01", "server": b"\x30\x02", "client": b"\x30\x03"}
_TIMES: Final = struct.Struct("<BQBQ")
_DOUBLE: Final = struct.Struct("<Bd")
_SAMPLED: Final = b"\x85\x01" + struct.pack("<I", 0x101)  # flags: recorded, and known to be of this process
_STATUS_ERROR: Final = b"\x18\x02"
_ONE_BYTE: Final = 0x80
_KEYS_KEPT: Final = 512
"""Attribute names that are written once and kept; there are a few dozen."""


class SpanEncoder:
    """Knows what is the same for every span of a host: its resource and its scope."""

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
    parts.append(_SAMPLED)  # one that is not recorded never comes here
    return b"".join(parts)


def _attribute(key: str, value: Attribute) -> bytes:
    name = _key(key)
    if isinstance(value, str):  # nearly all of them, and nearly all are short: written at once
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
