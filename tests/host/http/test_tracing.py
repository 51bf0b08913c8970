"""Traces, end to end: a caller's trace covers the request, the run, the worker and its calls, and is sent by OTLP to a
collector on a real socket. An unreachable collector costs only its spans."""

import gzip
import http.server
import socket
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.replacement import replace

from bollard.host.settings import Settings

pytestmark = pytest.mark.full


PATIENCE_S = 120.0
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CALLER = f"00-{TRACE}-{SPAN}-01"
TRACED = """
    from bollard.sdk import AgentAPIException, RunContext, runner

    @runner(name="teller", label="Teller", permissions={"history": ["page"]})
    async def teller(ctx: RunContext):
        if ctx.input.text == "page":
            await ctx.api.history.page()
        if ctx.input.text == "peek":
            try:
                await ctx.api.events.page()
            except AgentAPIException:
                pass
        if ctx.input.text == "fail":
            raise RuntimeError("no")
        yield ctx.completed(ctx.runtime.traceparent or "none")

    @runner(name="boss", label="Boss", permissions={"agents": ["call"]})
    async def boss(ctx: RunContext):
        child = await ctx.api.agents.call("traced.teller", ctx.input.text)
        yield ctx.completed(child.messages[0].content)
"""


class Collector:
    """Takes OTLP over HTTP on loopback."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.services: set[str] = set()
        self._came = threading.Condition()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                assert self.path == "/v1/traces"
                collector.take(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Silent."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def take(self, request: ExportTraceServiceRequest) -> None:
        with self._came:
            for of_resource in request.resource_spans:
                named = {each.key: each.value.string_value for each in of_resource.resource.attributes}
                self.services.add(named["service.name"])
                for of_scope in of_resource.scope_spans:
                    self.spans.extend(of_scope.spans)
            self._came.notify_all()

    def wait_for(self, *names: str) -> dict[str, Any]:
        """These spans, when they have all come."""
        with self._came:
            assert self._came.wait_for(lambda: set(names) <= {span.name for span in self.spans}, PATIENCE_S), (
                f"only {[span.name for span in self.spans]} came"
            )
            return {span.name: span for span in self.spans}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    yield collector
    collector.close()


@pytest.fixture(scope="module")
def traced(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    path = tmp_path_factory.mktemp("plugins") / "traced.py"
    path.write_text(textwrap.dedent(TRACED), encoding="utf-8")
    return replace(settings, plugins=(path,))


@pytest.fixture
def client(traced: Settings, collector: Collector, start_host: Any, client_of: Any, tmp_path: Path) -> Any:
    """Of a host that sends its spans to the collector."""
    data = tmp_path if not traced.database else traced.data
    host = start_host(replace(traced, data=data, otel_endpoint=collector.url))
    client = client_of(host.port, host.token or "")
    if host.token is None:
        pytest.fail("the host has no token of this test")
    client.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    client.host = host
    return client


@pytest.fixture(scope="module", params=["sqlite"])
def settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, plugin: Path) -> Settings:
    """Tracing does not depend on the store."""
    return Settings(data=tmp_path_factory.mktemp("data"), plugins=(plugin,), builtin_plugins=False, port=0, grace_s=0.5)


def said(client: Any, agent: str, text: str, **headers: str) -> tuple[str, str]:
    """The run, and its answer."""
    body = {"agent": f"traced.{agent}", "input": {"text": text}, "conversation": "c"}
    run_id = client.post("/api/v1/runs", body, **headers).json["run_id"]
    events = client.read(run_id)
    assert events[-1].type == "run.ended"
    messages = [event.data["data"]["message"]["content"] for event in events if event.type == "message.completed"]
    return run_id, messages[-1] if messages else ""


def test_one_trace_covers_the_request_the_run_and_the_worker_calls(client: Any, collector: Collector) -> None:
    run_id, told = said(client, "teller", "page", traceparent=CALLER)
    spans = collector.wait_for("POST /api/v1/runs", "invoke_agent traced.teller", "api history.page")
    request, run, call = (
        spans[name] for name in ("POST /api/v1/runs", "invoke_agent traced.teller", "api history.page")
    )
    assert {span.trace_id.hex() for span in (request, run, call)} == {TRACE}
    assert request.parent_span_id.hex() == SPAN
    assert run.parent_span_id == request.span_id
    assert call.parent_span_id == run.span_id
    assert told == f"00-{TRACE}-{run.span_id.hex()}-01"  # the worker goes on under the run's span
    assert collector.services == {"bollard"}
    known = attributes(run)
    assert known["gen_ai.operation.name"] == "invoke_agent"
    assert (known["gen_ai.agent.id"], known["gen_ai.conversation.id"]) == ("traced.teller", "c")
    assert (known["bollard.run.id"], known["bollard.run.status"]) == (run_id, "completed")
    assert attributes(request)["http.response.status_code"] == 202
    assert run.start_time_unix_nano <= call.start_time_unix_nano
    assert call.end_time_unix_nano <= run.end_time_unix_nano + 1_000_000  # starts are in whole milliseconds


def test_a_child_run_is_in_the_trace_of_the_run_that_called_it(client: Any, collector: Collector) -> None:
    may = {"permissions": {"agents": ["call"]}, "resources": {"agents": {"add": ["traced.teller"]}}}
    client.save_agent("traced.head", "traced/boss", access=may)
    _, told = said(client, "head", "hello", traceparent=CALLER)
    spans = collector.wait_for("invoke_agent traced.head", "invoke_agent traced.teller", "api agents.call")
    boss, child = spans["invoke_agent traced.head"], spans["invoke_agent traced.teller"]
    assert child.trace_id == boss.trace_id == bytes.fromhex(TRACE)
    assert child.parent_span_id == boss.span_id
    assert told == f"00-{TRACE}-{child.span_id.hex()}-01"
    assert attributes(child)["bollard.run.parent"] == attributes(boss)["bollard.run.id"]


def test_a_request_without_a_trace_starts_one(client: Any, collector: Collector) -> None:
    _, told = said(client, "teller", "hello", traceparent="nonsense")
    spans = collector.wait_for("POST /api/v1/runs", "invoke_agent traced.teller")
    request, run = spans["POST /api/v1/runs"], spans["invoke_agent traced.teller"]
    assert request.parent_span_id == b""
    assert run.parent_span_id == request.span_id
    assert told == f"00-{request.trace_id.hex()}-{run.span_id.hex()}-01"


def test_a_failed_run_has_an_error_in_its_span(client: Any, collector: Collector) -> None:
    said(client, "teller", "fail")
    run = collector.wait_for("invoke_agent traced.teller")["invoke_agent traced.teller"]
    assert run.status.code == 2
    assert attributes(run)["error.type"] == "runner.error"


def test_a_refused_call_has_an_error_in_its_span(client: Any, collector: Collector) -> None:
    said(client, "teller", "peek")
    call = collector.wait_for("api events.page")["api events.page"]
    assert call.status.code == 2
    assert attributes(call)["error.type"] in ("unauthorized", "capability_denied")


@pytest.mark.smoke
def test_no_span_contains_message_texts(client: Any, collector: Collector) -> None:
    said(client, "teller", "a secret sentence")
    collector.wait_for("invoke_agent traced.teller", "POST /api/v1/runs")
    client.host.stop()  # what waited has been sent
    assert all(b"secret sentence" not in span.SerializeToString() for span in collector.spans)
    assert all(client.token.encode() not in span.SerializeToString() for span in collector.spans)


def test_the_last_spans_are_sent_before_the_host_exits(client: Any, collector: Collector) -> None:
    said(client, "teller", "hello")
    client.host.stop()
    assert "invoke_agent traced.teller" in {span.name for span in collector.spans}


def test_an_unsampled_trace_of_the_caller_is_respected(client: Any, collector: Collector) -> None:
    _, told = said(client, "teller", "hello", traceparent=CALLER[:-1] + "0")
    assert told.startswith(f"00-{TRACE}-")
    assert told.endswith("-00")
    client.host.stop()
    assert TRACE not in {span.trace_id.hex() for span in collector.spans}


def test_an_unreachable_collector_loses_only_its_spans(
    traced: Settings, start_host: Any, client_of: Any, tmp_path: Path, parse_metrics: Any
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        nobody = f"http://127.0.0.1:{reserved.getsockname()[1]}"  # it accepts, and never answers
        host = start_host(replace(traced, data=tmp_path, otel_endpoint=nobody))
        client = client_of(host.port, host.token)
        client.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
        for number in range(20):
            assert said(client, "teller", f"hello {number}")[1].startswith("00-")
        samples = parse_metrics(client.get("/metrics").body.decode())["bollard_spans_sent_total"].samples
        assert samples == {("bollard_spans_sent_total", ()): 0.0}
        host.stop()


def test_without_a_collector_the_worker_gets_the_span_of_the_caller(
    traced: Settings, start_host: Any, client_of: Any, tmp_path: Path
) -> None:
    host = start_host(replace(traced, data=tmp_path))
    client = client_of(host.port, host.token)
    client.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    assert said(client, "teller", "hello", traceparent=CALLER)[1] == CALLER
    _, alone = said(client, "teller", "hello")
    assert alone.endswith("-00")  # its own trace, which is not recorded


def test_an_event_belongs_to_its_own_trace_or_to_that_of_its_request(client: Any, collector: Collector) -> None:
    client.put("/api/v1/bindings/ci", {"agent_id": "traced.teller", "filters": [{"field": "source", "values": ["ci"]}]})
    cloud = {"ce_specversion": "1.0", "ce_source": "ci", "ce_type": "com.example.build", "ce_id": "1"}
    own = "00-11111111111111111111111111111111-2222222222222222-01"
    brought = client.post("/api/v1/events", b"", **cloud, ce_traceparent=own, traceparent=CALLER).json["run_id"]
    asked = client.post("/api/v1/events", b"", **{**cloud, "ce_id": "2"}, traceparent=CALLER).json["run_id"]
    for run_id in (brought, asked):
        client.read(run_id)
    client.host.stop()
    runs = {attributes(span).get("bollard.run.id"): span for span in collector.spans if span.name.startswith("invoke")}
    assert (runs[brought].trace_id.hex(), runs[brought].parent_span_id.hex()) == (own[3:35], own[36:52])
    posts = {span.span_id for span in collector.spans if span.name == "POST /api/v1/events"}
    assert runs[asked].trace_id.hex() == TRACE
    assert runs[asked].parent_span_id in posts
