"""Requests of hostile pages in a browser: foreign host names, foreign origins, framing."""

from typing import Any

import pytest
from tests.tables import for_each

from bollard.host.errors import HostError
from bollard.host.http.edge import HostRules, OriginRules, host_name, read_origin_headers
from bollard.host.settings import Settings

_OURS = "https://bollard.example.org"
_SETTINGS = Settings(origins=(_OURS,), allowed_hosts=("bollard.lan",))
_KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
_HANDSHAKE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", _KEY)


@for_each(
    ("header", "name"),
    [
        (b"localhost", "localhost"),
        (b"LocalHost:8420", "localhost"),
        (b"localhost.:1", "localhost"),
        (b"[::1]:8420", "::1"),
        (b"[::1]", "::1"),
        (b"127.0.0.1:65535", "127.0.0.1"),
        (b"", None),
        (b":8420", None),
        (b"a:", None),
        (b"a:b", None),
        (b"a:123456", None),
        (b"a b", None),
        (b"a/b", None),
        (b"user@localhost", None),
        (b"localhost,evil.example", None),
        (b"[::1", None),
        (b"[::1]x", None),
        (b"[evil]", None),
        (b"\xff", None),
    ],
)
def test_a_host_header_has_one_interpretation(header: bytes, name: str | None) -> None:
    assert host_name(header) == name


@for_each(
    ("header", "code"),
    [
        (b"localhost:8420", None),
        (b"127.0.0.1", None),
        (b"[::1]:9", None),
        (b"bollard.example.org", None),
        (b"bollard.lan:443", None),
        (b"10.0.0.5:8420", None),  # the address that the request came in at
        (b"10.0.0.6:8420", "forbidden_host"),
        (b"evil.example:8420", "forbidden_host"),
        (b"localhost.evil.example", "forbidden_host"),
        (b"xlocalhost", "forbidden_host"),
        (b"sub.bollard.example.org", "forbidden_host"),
        (b"a b", "malformed_request"),
        (None, "malformed_request"),
    ],
)
def test_only_the_names_of_this_host_are_accepted(header: bytes | None, code: str | None) -> None:
    rules = HostRules(_SETTINGS)
    for _ in range(2):  # the second time from memory
        refusal = rules.check(header, "10.0.0.5")
        assert (refusal.code if refusal else None) == code


def test_a_wildcard_address_is_not_a_host_name() -> None:
    refusal = HostRules(Settings(host="0.0.0.0", origins=(_OURS,))).check(b"0.0.0.0:8420", "10.0.0.5")
    assert refusal is not None


_EVIL, _SAME, _CROSS = "Origin: https://evil.example", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site"
_COOKIE = "Cookie: theme=dark; __Host-bollard=abc"


@pytest.mark.parametrize(
    ("method", "lines", "status"),
    [
        # A client other than a browser sends none of these headers, and needs a token anyway.
        ("GET", [], 200),
        ("POST", [], 200),
        # Our own page, and a listed one.
        ("POST", ["Origin: http://localhost"], 200),
        ("POST", ["Origin: http://localhost", _SAME, _COOKIE], 200),
        ("POST", [f"Origin: {_OURS}", _CROSS, _COOKIE], 200),
        ("GET", [_SAME, _COOKIE], 200),
        ("GET", ["Sec-Fetch-Site: none", _COOKIE], 200),
        # A page of another site.
        ("POST", [_EVIL], 403),
        ("PUT", [_EVIL], 403),
        ("DELETE", [_EVIL], 403),
        ("POST", [_EVIL, _COOKIE], 403),
        ("GET", [_EVIL, _COOKIE], 403),
        ("POST", [_EVIL, _SAME, _COOKIE], 403),
        ("POST", ["Origin: null", _COOKIE], 403),
        ("POST", ["Origin: http://localhost.evil.example"], 403),
        ("POST", ["Origin: https://localhost"], 403),  # another scheme is another origin
        ("POST", ["Origin: http://localhost:9999"], 403),  # and so is another port
        ("POST", [f"Origin: {_OURS}.evil.example"], 403),
        ("POST", [f"Origin: {_OURS}", _EVIL], 403),
        ("POST", [_CROSS], 403),
        ("POST", ["Sec-Fetch-Site: same-site"], 403),
        ("GET", [_CROSS, _COOKIE], 403),
        # A cookie with nothing that says where it comes from.
        ("POST", [_COOKIE], 403),
        ("GET", [_COOKIE], 200),
        # What a link or an image of another site fetches without a cookie needs a token, which it has not.
        ("GET", [_CROSS], 200),
        ("GET", [_EVIL], 200),
        ("POST", ["Cookie: other=1"], 200),
    ],
)
def test_a_page_of_another_site_cannot_change_anything(start: Any, method: str, lines: list[str], status: int) -> None:
    server = start(origins=(_OURS,))
    wire = server.wire()
    head = [f"{method} /a HTTP/1.1", "Host: localhost", *lines, "Content-Length: 0", "", ""]
    wire.send("\r\n".join(head).encode())
    answer = wire.answer()
    assert answer is not None
    assert answer.status == status
    assert len(server.app.seen) == (1 if status == 200 else 0)
    if status == 403:
        assert answer.code == "forbidden_origin"
        assert answer.all("access-control-allow-origin") == []


def test_a_rebound_name_is_refused(server: Any) -> None:
    wire = server.wire()
    wire.send(b"GET /a HTTP/1.1\r\nHost: evil.example:8420\r\n\r\n")
    answer = wire.answer()
    assert answer is not None
    assert (answer.status, answer.code) == (421, "forbidden_host")
    assert server.app.seen == []


def test_two_authorization_headers_are_always_refused(server: Any) -> None:
    same, other = "Authorization: Bearer one", "authorization: Basic two"
    for lines in ([same, same], [same, other], [other, same]):
        answer = server.wire().get("/a", *lines)
        assert (answer.status, answer.code) == (400, "malformed_request")
    wire = server.wire()
    wire.send("\r\n".join(["GET /socket HTTP/1.1", "Host: localhost", *_HANDSHAKE, same, other, "", ""]).encode())
    socket = wire.answer()
    assert socket is not None
    assert (socket.status, socket.code) == (400, "malformed_request")
    assert server.app.seen == []
    assert server.wire().get("/a", same).status == 200


def test_only_a_listed_page_may_read_answers(start: Any) -> None:
    server = start(origins=(_OURS,))
    answer = server.wire().get("/a", f"Origin: {_OURS}")
    assert answer.all("access-control-allow-origin") == [_OURS]
    assert answer.all("vary") == ["Origin"]
    for lines in ([_EVIL], [], ["Origin: http://localhost"]):
        assert server.wire().get("/a", *lines).all("access-control-allow-origin") == []


@pytest.mark.parametrize(("origin", "status"), [(_OURS, 204), ("https://evil.example", 200)])
def test_a_preflight_is_answered_for_listed_pages_only(start: Any, origin: str, status: int) -> None:
    server = start(origins=(_OURS,))
    wire = server.wire()
    lines = [f"Origin: {origin}", "Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: authorization"]
    wire.send("\r\n".join(["OPTIONS /a HTTP/1.1", "Host: localhost", *lines, "", ""]).encode())
    answer = wire.answer()
    assert answer is not None
    assert answer.status == status
    allowed = answer.all("access-control-allow-origin")
    assert allowed == ([_OURS] if status == 204 else [])
    if status == 204:
        assert "PUT" in answer.all("access-control-allow-methods")[0]
        assert "*" not in str(answer.headers)
        assert server.app.seen == []


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([], 101),
        (["Origin: http://localhost"], 101),
        ([f"Origin: {_OURS}"], 101),
        ([_EVIL], 403),
        (["Origin: null"], 403),
        (["Origin: http://localhost:1"], 403),
        ([_CROSS], 403),
        ([_COOKIE], 403),
    ],
)
def test_a_page_of_another_site_opens_no_websocket(start: Any, lines: list[str], status: int) -> None:
    server = start(origins=(_OURS,))
    wire = server.wire()
    wire.send("\r\n".join(["GET /socket HTTP/1.1", "Host: localhost", *_HANDSHAKE, *lines, "", ""]).encode())
    answer = wire.answer()
    assert answer is not None
    assert answer.status == status
    if status == 403:
        assert answer.code == "forbidden_origin"
    headers = [tuple(part.strip().encode() for part in line.partition(":")[::2]) for line in lines]
    lowered = [(name.lower(), value) for name, value in [*headers, (b"Host", b"localhost")]]
    refusal = OriginRules(Settings(origins=(_OURS,))).check(read_origin_headers(lowered), "ws", guarded=True)
    assert (refusal is None) == (status == 101)


def test_the_header_that_names_the_host_is_checked_for_websockets_too(server: Any) -> None:
    wire = server.wire()
    wire.send("\r\n".join(["GET /socket HTTP/1.1", "Host: evil.example", *_HANDSHAKE, "", ""]).encode())
    answer = wire.answer()
    assert answer is not None
    assert (answer.status, answer.code) == (421, "forbidden_host")


def test_every_response_has_the_strict_browser_headers(server: Any) -> None:
    refused = server.wire()
    refused.send(b"nonsense\r\n\r\n")
    answers = [server.wire().get("/a"), server.wire().get("/stream"), server.wire().get("/broken"), refused.answer()]
    for answer in answers:
        assert answer is not None
        (policy,) = answer.all("content-security-policy")
        assert policy.startswith("default-src 'none'; frame-ancestors 'none'; ")
        assert answer.all("x-content-type-options") == ["nosniff"]
        assert answer.all("x-frame-options") == ["DENY"]
        assert answer.all("referrer-policy") == ["no-referrer"]
        assert answer.all("cache-control") == ["no-store"]
        assert answer.all("cross-origin-opener-policy") == ["same-origin"]
        assert answer.all("cross-origin-resource-policy") == ["same-origin"]
        assert answer.all("strict-transport-security") == []  # there is no TLS
        assert answer.all("server") == []
        assert len(answer.all("date")) == 1


def test_the_rules_of_origins_are_the_same_for_every_spelling_of_the_scheme() -> None:
    rules = OriginRules(Settings())
    said = read_origin_headers([(b"host", b"LOCALHOST:8420"), (b"origin", b"http://localhost:8420")])
    assert rules.check(said, "http", guarded=True) is None
    assert rules.check(said, "ws", guarded=True) is None
    assert isinstance(rules.check(said, "wss", guarded=True), HostError)
