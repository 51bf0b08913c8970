"""The export of spans: a bounded queue and a sender. The sender is imported only if an endpoint is set, to save
memory."""

import importlib
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import structlog

from bollard.host.dial import Dial
from bollard.host.limits import SPAN_FLUSH_S, SPAN_STOP_S, SPANS_AT_ONCE, SPANS_WAITING
from bollard.host.telemetry.tracer import Span

# Exported spans: a bounded queue and a thread. No caller waits for them.


_log = structlog.get_logger("bollard.telemetry")


class SpanQueue:
    """Accepts spans on the event loop and sends them from a thread. If the queue is full, spans are dropped and
    counted."""

    def __init__(
        self,
        send: Callable[[Sequence[Span]], bool],
        *,
        limit: int = SPANS_WAITING,
        at_once: int = SPANS_AT_ONCE,
        flush_s: float = SPAN_FLUSH_S,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        """The thread calls `ended` after the last span."""
        self._send = send
        self._limit = limit
        self._at_once = at_once
        self._flush_s = flush_s
        self._ended = ended
        self._waiting: deque[Span] = deque()
        self._stirred = threading.Event()
        self._closing = False
        self._failing = False
        self._thread = threading.Thread(target=self._work, name="bollard-spans", daemon=True)
        self.sent = 0
        self.dropped = 0
        """Spans dropped because the queue was full or the collector refused them."""

    def start(self) -> None:
        self._thread.start()

    def put(self, span: Span) -> None:
        """Queue a span. Never waits, never raises."""
        waiting = self._waiting
        if len(waiting) >= self._limit:
            self.dropped += 1
            return
        waiting.append(span)
        if len(waiting) == self._at_once:
            self._stirred.set()

    def close(self, timeout_s: float) -> None:
        """Send the queued spans within a time limit."""
        self._closing = True
        self._stirred.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _work(self) -> None:
        while True:
            self._stirred.wait(self._flush_s)
            self._stirred.clear()
            closing = self._closing
            while self._waiting:
                self._send_some()
            if closing:
                break
        self._ended()

    def _send_some(self) -> None:
        batch = [self._waiting.popleft() for _ in range(min(self._at_once, len(self._waiting)))]
        try:
            taken = self._send(batch)
        except Exception as error:  # noqa: BLE001 -- the boundary to a library: a dead thread would report nothing
            taken = False
            _log.warning("spans could not be sent", problem=f"{type(error).__name__}: {error}")
        if taken:
            self.sent += len(batch)
        else:
            self.dropped += len(batch)
            if not self._failing:  # once per outage
                _log.warning("the collector does not take spans; they are dropped", spans=len(batch))
        self._failing = not taken


class SpanExport:
    """The queue and its sender."""

    def __init__(self, queue: SpanQueue, give_up: Callable[[], None]) -> None:
        self.queue = queue
        self._give_up = give_up

    def start(self) -> None:
        self.queue.start()

    def close(self) -> None:
        """Send the queued spans within a time limit. Blocks."""
        self.queue.close(SPAN_STOP_S)
        self._give_up()


def span_export(
    endpoint: str, *, version: str, instance: str, environment: Mapping[str, str], dial: Dial = socket.create_connection
) -> SpanExport | None:
    """Create the export; `None` without an endpoint. `dial` connects to the collector. Raises
    `SettingsError` for unreadable certificates."""
    if not endpoint:
        return None
    sending = importlib.import_module("bollard.host.telemetry.otlp_export")
    sender = sending.open_sender(endpoint, version=version, instance=instance, environment=environment, dial=dial)
    return SpanExport(SpanQueue(sender.send, ended=sender.link.hang_up), sender.link.give_up)
