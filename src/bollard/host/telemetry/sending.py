"""Sends spans to one collector: the encoder and the link, put together."""

from collections.abc import Mapping, Sequence

import msgspec

from bollard.host.telemetry.collector import CollectorLink, collector_of
from bollard.host.telemetry.otlp import SpanEncoder
from bollard.host.telemetry.tracer import Span

__all__ = ["SpanSender", "open_sender"]


class SpanSender(msgspec.Struct, frozen=True):
    """Used by one thread."""

    encode: SpanEncoder
    link: CollectorLink

    def send(self, spans: Sequence[Span]) -> bool:
        """Whether the collector took them."""
        return self.link.send(self.encode(spans))


def open_sender(endpoint: str, *, version: str, instance: str, environment: Mapping[str, str]) -> SpanSender:
    """Raises `SettingsError` for certificates that cannot be read."""
    collector = collector_of(endpoint, environment)
    named = {"service.name": "bollard", "service.version": version, "service.instance.id": instance}
    encode = SpanEncoder({**named, **collector.resource}, scope="bollard.host", version=version)
    return SpanSender(encode, CollectorLink(collector))
