"""Whether spans leave this host, and how. OpenTelemetry is an extra, so it is imported only where it is wanted."""

import importlib
from collections.abc import Callable

from bollard.host.errors import SettingsError
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


def span_export(endpoint: str, *, version: str, instance: str) -> SpanExport | None:
    """Nothing without an endpoint. Raises `SettingsError` where the library is not installed."""
    if not endpoint:
        return None
    try:  # by name: a third of a second and 20 MiB that only those should pay who want it
        otlp = importlib.import_module("bollard.host.telemetry.otlp")
    except ImportError as error:
        message = f"otel_endpoint needs the extra `telemetry` ({error.name} is missing)"
        raise SettingsError(message, hint="pip install 'bollard[telemetry]'", field="otel_endpoint") from error
    sender = otlp.OtlpSender(endpoint, version=version, instance=instance)
    return SpanExport(SpanQueue(sender), sender.close)
