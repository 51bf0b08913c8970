"""The link to a collector, against one on a real socket that answers on demand."""

import contextlib
import gzip
import http.server
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.ports import free_port

from bollard.host.telemetry.otlp_export import Collector, CollectorLink, collector_of

PATIENCE_S = 120.0


class Sink:
    """Answers each batch with the next status; the last one stays. A zero hangs up without an answer."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.connections = 0
        sink = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                sink.connections += 1
                super().setup()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                sink.requests.append((self.path, dict(self.headers.items()), body))
                status = sink.statuses.pop(0) if len(sink.statuses) > 1 else sink.statuses[0]
                self.close_connection = status == 0
                if status:
                    self.send_response(status)
                    self.send_header("content-length", "0")
                    self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Silent."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def sink() -> Iterator[Sink]:
    sink = Sink(200)
    yield sink
    sink.close()


@contextlib.contextmanager
def _link(collector: Collector, *, within_s: float = PATIENCE_S, pause_s: float = 0.001) -> Iterator[CollectorLink]:
    link = CollectorLink(collector, within_s=within_s, pause_s=pause_s)
    yield link
    link.hang_up()


def test_batches_share_one_connection_and_obey_the_standard_variables(sink: Sink) -> None:
    environment = {
        "OTEL_EXPORTER_OTLP_HEADERS": "x-for=everything",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "x-key=a%20b, x-other=c=d,nonsense",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        "OTEL_RESOURCE_ATTRIBUTES": "service.name=no,deployment.environment.name=test",
        "OTEL_SERVICE_NAME": "harbour",
    }
    collector = collector_of(sink.url + "/base/", environment)
    with _link(collector) as link:
        assert link.send(b"one")
        assert link.send(b"two")
    assert [path for path, _, _ in sink.requests] == ["/base/v1/traces"] * 2
    assert [gzip.decompress(body) for _, _, body in sink.requests] == [b"one", b"two"]
    headers = {name.lower(): value for name, value in sink.requests[0][1].items()}
    assert (headers["x-key"], headers["x-other"], "x-for" in headers) == ("a b", "c=d", False)
    assert headers["content-type"] == "application/x-protobuf"
    assert collector.resource == {"service.name": "harbour", "deployment.environment.name": "test"}
    assert sink.connections == 1


@pytest.mark.parametrize("trouble", [429, 502, 503, 504, 0])
def test_a_temporarily_refused_batch_is_sent_again(sink: Sink, trouble: int) -> None:
    sink.statuses = [trouble, 200]
    with _link(collector_of(sink.url, {})) as link:
        assert link.send(b"x")
    assert [body for _, _, body in sink.requests] == [b"x", b"x"]


def test_a_permanently_refused_batch_is_not_sent_again(sink: Sink) -> None:
    sink.statuses = [400]
    with _link(collector_of(sink.url, {})) as link:
        assert not link.send(b"x")
    assert len(sink.requests) == 1


def test_a_connection_closed_by_the_collector_is_replaced_without_a_pause(sink: Sink) -> None:
    sink.statuses = [200, 0, 200]
    with _link(collector_of(sink.url, {}), pause_s=PATIENCE_S) as link:  # a pause would fail it
        assert link.send(b"one")
        assert link.send(b"two")
    assert sink.connections == 2


def test_an_abandoned_link_does_not_retry() -> None:
    with _link(collector_of(f"http://127.0.0.1:{free_port()}", {}), pause_s=PATIENCE_S / 2) as link:
        link.give_up()
        assert not link.send(b"x")


def test_an_unreachable_collector_costs_no_more_than_the_time_of_a_batch() -> None:
    with _link(collector_of(f"http://127.0.0.1:{free_port()}", {}), within_s=0.01) as link:
        assert not link.send(b"x")
