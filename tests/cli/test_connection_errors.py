"""A command with the address of another server reports that server, and the remedy."""

import http.server
import socketserver
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.certificates import self_signed
from tests.cli.conftest import Serve
from tests.ports import free_port

from bollard.cli.client.credentials import Credential, Credentials, credentials_path

_HERE = "127.0.0.1"


class _Page(http.server.BaseHTTPRequestHandler):
    """Answers with a web page, with the status in the path of the address if there is one."""

    def do_GET(self) -> None:
        status = int(self.path.split("/")[1]) if self.path[1:2].isdigit() else 200
        self.send_response(status)
        if status == 301:
            self.send_header("Location", "https://example.org/")
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(b"<html></html>")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the name of the base class
        del format, args


class _Greeting(socketserver.BaseRequestHandler):
    """Speaks first, and not HTTP."""

    def handle(self) -> None:
        self.request.sendall(b"220 mail.example.org ready\r\n")
        self.request.recv(65536)


class _Silent(socketserver.BaseRequestHandler):
    """Reads, and hangs up."""

    def handle(self) -> None:
        self.request.recv(65536)


def told(bollard: Callable[..., Any], url: str, **variables: str) -> list[str]:
    done = bollard("agents", "--url", url, "--token", "t", **variables)
    assert (done.code, done.out) == (4, "")
    return done.err.splitlines()


def test_a_port_without_tls_is_reported_with_the_working_address(bollard, serve: Serve) -> None:
    port = serve(_Page)
    assert told(bollard, f"https://{_HERE}:{port}") == [
        f"bollard: https://{_HERE}:{port} does not speak TLS",
        f"hint: for a host without TLS use http://{_HERE}:{port}",
    ]


def test_a_port_with_tls_is_reported_with_the_working_address(bollard, serve: Serve, tmp_path: Path) -> None:
    port = serve(_Page, self_signed(tmp_path, _HERE))
    assert told(bollard, f"http://{_HERE}:{port}") == [
        f"bollard: http://{_HERE}:{port} answers only over TLS",
        f"hint: use https://{_HERE}:{port}",
    ]


@pytest.mark.full
def test_an_untrusted_certificate_is_reported_with_its_remedy(bollard, serve: Serve, tmp_path: Path) -> None:
    files = self_signed(tmp_path, _HERE)
    port = serve(_Page, files)
    unknown = told(bollard, f"https://{_HERE}:{port}")
    assert unknown[0].endswith("is not trusted: this machine does not know its issuer")
    assert "SSL_CERT_FILE" in unknown[1]
    other_name = told(bollard, f"https://localhost:{port}", SSL_CERT_FILE=files[0])
    assert other_name[0] == f"bollard: the certificate of https://localhost:{port} is for other names"
    (tmp_path / "old").mkdir()
    old = self_signed(tmp_path / "old", _HERE, hours=-1)
    expired = told(bollard, f"https://{_HERE}:{serve(_Page, old)}", SSL_CERT_FILE=old[0])
    assert expired[0].endswith("has expired, or is not valid yet")
    trusted = told(bollard, f"https://{_HERE}:{port}", SSL_CERT_FILE=files[0])
    assert "is not a Bollard host" in trusted[0], "the hint about SSL_CERT_FILE works"


@pytest.mark.full
def test_a_port_of_another_server_is_reported_as_such(bollard, serve: Serve) -> None:
    page, greeting, silent = (f"http://{_HERE}:{serve(handler)}" for handler in (_Page, _Greeting, _Silent))
    assert told(bollard, page)[0] == f"bollard: {page} is not a Bollard host: it answers HTTP 200 text/html"
    for status in (401, 404):  # a login page of something else is not a rejected token
        answered = told(bollard, f"{page}/{status}")[0]
        assert answered == f"bollard: {page}/{status} is not a Bollard host: it answers HTTP {status} text/html"
    assert told(bollard, f"{page}/502")[0].startswith(f"bollard: a proxy at {page}/502 answers HTTP 502")
    assert told(bollard, f"{page}/301")[0] == f"bollard: {page}/301 redirects to https://example.org/"
    assert told(bollard, greeting)[0] == f"bollard: {greeting} does not speak HTTP"
    assert told(bollard, silent)[0] == f"bollard: {silent} closed the connection without an answer"


def test_a_path_on_a_host_is_reported_with_the_address_of_the_host(bollard, host) -> None:
    for path in ("/api/v1", "/console"):
        done = bollard("agents", "--url", f"{host.url}{path}", "--text", **host.variables)
        problem = f"bollard: {host.url}{path} is a path on a host, not the address of a host"
        assert (done.code, done.err.splitlines()) == (4, [problem, f"hint: use --url {host.url}"])


def test_a_stream_of_another_server_ends_at_once_in_chinese_too(bollard, serve: Serve) -> None:
    address = f"http://{_HERE}:{serve(_Page)}"
    run = bollard("runs", "watch", "run_1", "--url", address, "--token", "t", BOLLARD_LANG="zh_Hans")
    assert (run.code, run.err.splitlines()[0]) == (
        4,
        f"bollard: {address} 不是 Bollard 主机：它的应答是 HTTP 200 text/html",
    )


def test_without_a_host_the_saved_address_of_the_own_host_is_named(bollard, tmp_path: Path) -> None:
    asked, saved = f"http://{_HERE}:{free_port()}", f"http://{_HERE}:{free_port()}"
    config = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert told(bollard, asked, **config)[1] == "hint: start a host with `bollard up`, or choose another with --url"
    Credentials(credentials_path(config)).save(Credential(address=saved, data="/srv/data", token="t"))
    assert told(bollard, asked, **config) == [
        f"bollard: no host answers at {asked} (Connection refused)",
        f"hint: your host listened at {saved}: choose it with --url {saved}, or start a host with `bollard up`",
    ]
    assert saved not in told(bollard, saved, **config)[1], "the saved address itself does not answer"
