"""Whether spans leave this host, and how: a queue, and what sends. That is loaded where an endpoint is set: an HTTP
client is memory that nobody else needs."""

import importlib
from collections.abc import Callable, Mapping

from bollard.host.limits import SPAN_STOP_S
from bollard.host.telemetry.span_queue import SpanQueue

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
    sending = importlib.import_module("bollard.host.telemetry.sending")
    sender = sending.open_sender(endpoint, version=version, instance=instance, environment=environment)
    return SpanExport(SpanQueue(sender.send, ended=sender.link.hang_up), sender.link.give_up)
