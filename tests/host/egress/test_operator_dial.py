"""The witness and the collector of spans are reached through the proxy of the host."""

from collections.abc import Iterator

import pytest
from tests.doubles.post_sink import PostSink, post_sink
from tests.doubles.proxy_server import ProxyServer, proxy_server
from tests.host.egress.test_proxy import rules

from bollard.host.audit.witness_sinks import WitnessHttp
from bollard.host.egress.client import EgressClient
from bollard.host.egress.operator_dial import operator_dial
from bollard.host.telemetry.otlp_export import CollectorLink, collector_of

SCHEMES = ("http", "socks5")


@pytest.fixture
def sink() -> Iterator[PostSink]:
    with post_sink() as server:
        yield server


@pytest.fixture
def proxy(sink: PostSink) -> Iterator[ProxyServer]:
    with proxy_server(sink.server_port) as server:
        yield server


@pytest.mark.parametrize("scheme", SCHEMES)
def test_witness_and_collector_get_their_requests_through_the_proxy(
    sink: PostSink, proxy: ProxyServer, scheme: str
) -> None:
    dial = operator_dial(EgressClient(proxies=rules(proxy.url(scheme))))
    WitnessHttp("http://192.0.2.7:8080/heads", dial=dial).append(b"{}\n")
    link = CollectorLink(collector_of("http://192.0.2.8:4318", {}), dial=dial)
    assert link.send(b"spans")
    link.hang_up()
    assert proxy.targets == ["192.0.2.7:8080", "192.0.2.8:4318"]
    assert sink.came == [("192.0.2.7:8080", "/heads"), ("192.0.2.8:4318", "/v1/traces")]


def test_the_proxy_gets_the_address_of_a_name_or_the_name_if_it_resolves(proxy: ProxyServer) -> None:
    resolving = operator_dial(EgressClient(proxies=rules(proxy.url("http"), resolves=True)))
    WitnessHttp("http://witness.example/heads", dial=resolving).append(b"{}\n")
    assert proxy.targets == ["witness.example:80"]
    dial = operator_dial(EgressClient(proxies=rules(proxy.url("http"))))
    with pytest.raises(OSError, match=r"witness\.invalid has no address"):
        WitnessHttp("http://witness.invalid/heads", dial=dial).append(b"{}\n")
    assert len(proxy.targets) == 1


def test_loopback_and_exceptions_are_reached_directly(sink: PostSink, proxy: ProxyServer) -> None:
    dial = operator_dial(EgressClient(proxies=rules(proxy.url("http"), "", "localhost")))
    for host in ("127.0.0.1", "localhost"):
        WitnessHttp(f"http://{host}:{sink.server_port}/heads", dial=dial).append(b"{}\n")
    assert (len(sink.came), proxy.targets) == (2, [])


def test_a_refusal_of_the_proxy_is_the_problem_of_the_witness(proxy: ProxyServer) -> None:
    proxy.refusal = 403
    dial = operator_dial(EgressClient(proxies=rules(proxy.url("http"))))
    with pytest.raises(OSError, match=r"through the proxy: the proxy refused the connection \(HTTP 403\)"):
        WitnessHttp("http://192.0.2.7/heads", dial=dial).append(b"{}\n")
