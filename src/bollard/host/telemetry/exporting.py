"""Whether spans leave this host, and how: a queue, an encoder, and the link to a collector."""

from collections.abc import Callable, Mapping, Sequence

from bollard.host.limits import SPAN_STOP_S
from bollard.host.telemetry.collector import CollectorLink, collector_of
from bollard.host.telemetry.otlp import SpanEncoder
from bollard.host.telemetry.span_queue import SpanQueue
from bollard.host.telemetry.tracer import Span

__all__ = ["SpanExport", "span_export"]


class SpanExport:
    """The queue, and what it sends with."""

    def __init__(self, queue: SpanQueue, give_up: Callable[[], None]) -> None:
        self.queue = queue
        self._give_up = give_up

    def start(self) -> None:
        self.queue.start()

    def close(self) -> None:
        """Send what waits, and wait for a collector that does not answer no longer than that. Blocks."""
        self.queue.close(SPAN_STOP_S)
        self._give_up()


def span_export(endpoint: str, *, version: str, instance: str, environment: Mapping[str, str]) -> SpanExport | None:
    """Nothing without an endpoint. Raises `SettingsError` for certificates that cannot be read."""
    if not endpoint:
        return None
    collector = collector_of(endpoint, environment)
    named = {"service.name": "bollard", "service.version": version, "service.instance.id": instance}
    encode = SpanEncoder({**named, **collector.resource}, scope="bollard.host", version=version)
    link = CollectorLink(collector)

    def send(spans: Sequence[Span]) -> bool:
        return link.send(encode(spans))

    return SpanExport(SpanQueue(send, ended=link.hang_up), link.give_up)
