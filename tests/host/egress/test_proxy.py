"""Connections through real proxies on loopback: the data for a proxy, its refusals, and the remaining rules."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.doubles.fixed_resolver import FixedResolver
from tests.doubles.proxy_server import proxy_server
from tests.host.egress.web import Start, Web
from tests.tables import for_each

from bollard.host.egress.addresses import parse_allow
from bollard.host.egress.client import EgressClient
from bollard.host.egress.destination import EgressRequest
from bollard.host.egress.proxy import Proxy, ProxyRules
from bollard.host.errors import EgressDenied, SettingsError, ToolFailed, UnknownName

NAMES: dict[str, list[list[str]]] = {
    "page.example": [["93.184.216.34"]],
    "six.example": [["2606:2800:220:1::1"]],
    "evil.example": [["93.184.216.34", "10.0.0.1"]],
    "near.example": [["10.7.0.9"]],
}
SCHEMES = ("http", "socks5")


def rules(proxy: str, login: str = "", *no_proxy: str, resolves: bool = False) -> ProxyRules:
    return ProxyRules.of_settings(proxy=proxy, login=login, no_proxy=no_proxy, resolves=resolves)


def client(proxies: ProxyRules, *allow: str, resolver: FixedResolver | None = None, **more: Any) -> EgressClient:
    return EgressClient(parse_allow(allow), resolver or FixedResolver(NAMES), proxies=proxies, **more)


@pytest.fixture
async def web(start: Start) -> Web:
    return await start()


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_the_proxy_gets_the_checked_address_and_the_server_the_name(web: Web, scheme: str) -> None:
    resolver = FixedResolver(NAMES)
    with proxy_server(web.port) as proxy:
        egress = client(rules(proxy.url(scheme)), resolver=resolver)
        answer = await egress.fetch(EgressRequest(url="http://page.example:8080/a"))
        assert (answer.status, answer.body) == (200, b"hi")
        await egress.fetch(EgressRequest(url="http://six.example/"))
        v6 = "[2606:2800:220:1::1]:80" if scheme == "http" else "2606:2800:220:1::1:80"
        assert proxy.targets == ["93.184.216.34:8080", v6]
    assert web.came[0].startswith("GET /a HTTP/1.1\r\nhost: page.example:8080\r\n")
    assert resolver.asked == ["page.example", "six.example"], "each once; the proxy has an address already"


class _TlsAnswer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, _TlsServer)
        self.server.came.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the library's name
        del format, args


class _TlsServer(ThreadingHTTPServer):
    """In threads: it outlives the loop of a test whose client hangs up during the handshake."""

    daemon_threads = False  # so that closing waits for every connection

    def __init__(self, identity: Path) -> None:
        super().__init__(("127.0.0.1", 0), _TlsAnswer)
        self.came: list[str] = []
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(identity)

    def finish_request(self, request: Any, client_address: Any) -> None:
        assert isinstance(request, socket.socket)
        with contextlib.suppress(OSError), self._context.wrap_socket(request, server_side=True) as wrapped:
            super().finish_request(wrapped, client_address)


@pytest.fixture
def tls_web(identity: Path) -> Iterator[_TlsServer]:
    server = _TlsServer(identity)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(30)


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_tls_passes_through_the_tunnel_to_the_name(tls_web: _TlsServer, identity: Path, scheme: str) -> None:
    def trusting() -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(identity))

    with proxy_server(tls_web.server_address[1]) as proxy:
        proxies = rules(proxy.url(scheme))
        egress = client(proxies, tls=trusting)
        assert (await egress.fetch(EgressRequest(url="https://page.example/"))).status == 200
        assert proxy.targets == ["93.184.216.34:443"]
        with pytest.raises(ToolFailed, match=r"through the proxy: .*certificate"):
            await client(proxies).fetch(EgressRequest(url="https://page.example/"))
    assert tls_web.came == ["/"]


async def test_early_bytes_of_a_proxy_are_not_a_response_of_the_server(tls_web: _TlsServer, identity: Path) -> None:
    with proxy_server(tls_web.server_address[1]) as proxy:
        proxy.after = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfake"
        egress = client(rules(proxy.url("http")), tls=lambda: ssl.create_default_context(cafile=str(identity)))
        with pytest.raises(ToolFailed, match="through the proxy"):
            await egress.fetch(EgressRequest(url="https://page.example/"))
    assert tls_web.came == []


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_proxy_gets_its_login_and_a_missing_or_wrong_login_is_reported(web: Web, scheme: str) -> None:
    with proxy_server(web.port, "ann:p:w 1") as proxy:
        request = EgressRequest(url="http://page.example/")
        url = proxy.url(scheme)
        with pytest.raises(ToolFailed, match="the proxy asks for a login"):
            await client(rules(url)).fetch(request)
        with pytest.raises(ToolFailed, match="the proxy refused the login") as refused:
            await client(rules(url, "ann:wrong")).fetch(request)
        assert "wrong" not in refused.value.message
        assert (await client(rules(url, "ann:p:w 1")).fetch(request)).status == 200
        assert proxy.logins == ["ann:wrong", "ann:p:w 1"]


def _raw(scheme: str, raw: bytes, told: str) -> tuple[str, bytes | None, int, str]:
    return scheme, raw, 0, told


@for_each(
    ("scheme", "raw", "refusal", "told"),
    [
        ("http", None, 403, r"the proxy refused the connection \(HTTP 403\)"),
        ("http", None, 502, r"the proxy refused the connection \(HTTP 502\)"),
        ("socks5", None, 2, r"the proxy refused the connection \(not allowed by its rules\)"),
        ("socks5", None, 5, r"the proxy refused the connection \(connection refused\)"),
        ("socks5", None, 99, r"the proxy refused the connection \(code 99\)"),
        _raw("http", b"\x05\x00", "the proxy closed the connection|reset"),
        _raw("http", b"SSH-2.0-OpenSSH_9.6\r\n", "the proxy does not speak HTTP"),
        _raw("http", b"HTTP/2 200\r\n\r\n", "the proxy does not speak HTTP"),
        _raw("http", b"HTTP/1.1 200 OK\r\nx: " + b"y" * 9000, "more than 8192 bytes"),
        _raw("socks5", b"HTTP/1.1 400 Bad Request\r\n\r\n", "the proxy does not speak SOCKS5"),
        _raw("socks5", b"\x04\x00", "the proxy does not speak SOCKS5"),
        _raw("socks5", b"\x05\x00\x05\x00\x00\x09", "the proxy does not speak SOCKS5|reset|Broken pipe"),
        _raw("socks5", b"\x05", "the proxy closed the connection|reset"),
    ],
)
async def test_a_proxy_that_refuses_or_speaks_another_protocol_fails_the_request(
    scheme: str, raw: bytes | None, refusal: int, told: str
) -> None:
    with proxy_server() as proxy:
        proxy.raw, proxy.refusal = raw, refusal
        with pytest.raises(ToolFailed, match=f"no connection: through the proxy: .*(?:{told})") as failed:
            await client(rules(proxy.url(scheme))).fetch(EgressRequest(url="http://page.example/", method="POST"))
    assert failed.value.details["reason"] == "request_failed", "nothing of the request was sent"


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_silent_proxy_costs_no_more_than_the_timeout_of_the_request(scheme: str) -> None:
    with proxy_server() as proxy:
        proxy.raw = b""
        request = EgressRequest(url="http://page.example/", timeout_s=0.2)
        with pytest.raises(ToolFailed, match="through the proxy: no answer in time"):
            await client(rules(proxy.url(scheme))).fetch(request)


async def test_an_unreachable_proxy_is_named_in_the_error() -> None:
    with proxy_server() as proxy:
        url = proxy.url("http")
    with pytest.raises(ToolFailed, match="through the proxy: Connection refused"):
        await client(rules(url)).fetch(EgressRequest(url="http://page.example/"))
    with pytest.raises(ToolFailed, match="the name of the proxy has no address"):
        await client(rules("socks5://nowhere.example")).fetch(EgressRequest(url="http://page.example/"))


async def test_the_address_rules_apply_behind_a_proxy(web: Web) -> None:
    web.send_on("http://10.0.0.1/")
    with proxy_server(web.port) as proxy:
        egress = client(rules(proxy.url("http")))
        for url in ("http://evil.example/", "http://near.example/", "http://10.0.0.1/", "http://169.254.169.254/"):
            with pytest.raises(EgressDenied):
                await egress.fetch(EgressRequest(url=url))
        assert proxy.targets == []
        with pytest.raises(EgressDenied):
            await egress.fetch(EgressRequest(url="http://page.example/"))
        assert proxy.targets == ["93.184.216.34:80"], "the redirect inside was not followed"
        with pytest.raises(UnknownName) as unknown:
            await egress.fetch(EgressRequest(url="http://nowhere.example/"))
        assert "proxy_resolves" in unknown.value.hint


async def test_loopback_and_exceptions_are_reached_without_the_proxy(web: Web) -> None:
    names = {**NAMES, "own.example": [["127.0.0.1"]], "a.corp.example": [["127.0.0.2"]], "b.example": [["127.0.0.3"]]}
    with proxy_server(web.port) as proxy:
        egress = client(
            rules(proxy.url("http"), "", ".corp.example", "*.other.example", "10.7.0.0/16", "direct.example"),
            "127.0.0.0/8",
            "10.7.0.0/16",
            resolver=FixedResolver(names),
        )
        for url in (f"http://127.0.0.1:{web.port}/", f"http://own.example:{web.port}/"):
            assert (await egress.fetch(EgressRequest(url=url))).status == 200
        assert proxy.targets == []
    direct = rules("http://127.0.0.1:1", "", ".corp.example", "*.other.example", "10.7.0.0/16", "direct.example")
    for host, is_direct in (
        ("a.corp.example", True),
        ("A.CORP.example.", True),
        ("x.y.other.example", True),
        ("direct.example", True),
        ("10.7.3.4", True),
        ("corp.example", False),
        ("notdirect.example", False),
        ("10.8.0.1", False),
        ("93.184.216.34", False),
    ):
        assert direct.skips_host(Proxy(scheme="http", host=host, port=80).place) is is_direct, host


async def test_an_allowed_network_is_reached_through_the_proxy(web: Web) -> None:
    with proxy_server(web.port) as proxy:
        egress = client(rules(proxy.url("socks5")), "10.7.0.0/16")
        assert (await egress.fetch(EgressRequest(url="http://near.example/"))).status == 200
        assert proxy.targets == ["10.7.0.9:80"]


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_a_proxy_that_resolves_gets_the_name_and_addresses_are_still_checked(web: Web, scheme: str) -> None:
    resolver = FixedResolver({})
    with proxy_server(web.port) as proxy:
        egress = client(rules(proxy.url(scheme), resolves=True), resolver=resolver)
        assert (await egress.fetch(EgressRequest(url="http://page.example/"))).status == 200
        assert (proxy.targets, resolver.asked) == (["page.example:80"], [])
        for url in ("http://10.0.0.1/", "http://127.0.0.1/", "http://0x7f000001/"):
            with pytest.raises(EgressDenied):
                await egress.fetch(EgressRequest(url=url))
        assert len(proxy.targets) == 1


async def test_the_proxy_of_a_request_has_precedence_and_obeys_the_address_rules(web: Web) -> None:
    with proxy_server(web.port) as own, proxy_server(web.port) as other:
        request = EgressRequest(url="http://page.example/")
        wanted = Proxy.of(own.url("socks5"))
        with pytest.raises(EgressDenied) as refused:
            await client(rules(other.url("http"))).fetch(request, wanted)
        assert "egress_allow" in refused.value.hint
        allowed = client(rules(other.url("http"), "", "page.example"), f"127.0.0.1:{own.port}")
        assert (await allowed.fetch(request, wanted)).status == 200
        assert (own.targets, other.targets) == (["93.184.216.34:80"], [])


@for_each(
    ("proxy", "login", "no_proxy", "reason"),
    [
        ("ftp://proxy.example:21", "", "", "proxy_invalid"),
        ("proxy.example:3128", "", "", "proxy_invalid"),
        ("http://", "", "", "proxy_invalid"),
        ("http://proxy.example:99999", "", "", "proxy_invalid"),
        ("http://ann:canary@proxy.example", "", "", "proxy_invalid"),
        ("http://proxy.example/path", "", "", "proxy_invalid"),
        ("http://0x7f000001:80", "", "", "proxy_invalid"),
        ("http://proxy.example", "canary", "", "proxy_invalid"),
        ("http://proxy.example", f"ann:canary{'x' * 256}", "", "proxy_invalid"),
        ("http://proxy.example", "ann:canary\r\nx: y", "", "proxy_invalid"),
        ("", "ann:canary", "", "proxy_missing"),
        ("http://proxy.example", "", "10.0.0.0/99", "no_proxy_invalid"),
    ],
)
def test_an_invalid_setting_is_refused_without_its_login(proxy: str, login: str, no_proxy: str, reason: str) -> None:
    with pytest.raises(SettingsError) as refused:
        rules(proxy, login, *([no_proxy] if no_proxy else []))
    assert refused.value.details["reason"] == reason
    assert "canary" not in f"{refused.value.message} {refused.value.hint} {refused.value.details}"


def test_no_representation_contains_the_login() -> None:
    proxy = Proxy.of("socks5://proxy.example", "ann:canary")
    assert (proxy.port, "canary" in repr(proxy)) == (1080, False)
