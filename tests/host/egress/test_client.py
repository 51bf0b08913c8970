"""Egress against real servers and a lying resolver (F44): the checked address is the connected one, at every hop; and
requests and responses are limited."""

import asyncio
import contextlib
import socket
import ssl
import threading
from pathlib import Path

import pytest
from tests.doubles.fixed_resolver import FixedResolver
from tests.host.egress.web import Start, Web

from bollard.host.egress.addresses import parse_allow
from bollard.host.egress.client import EgressClient, SystemResolver
from bollard.host.egress.destination import EgressRequest
from bollard.host.errors import EgressDenied, OutcomeUnknown, SettingsError, ToolFailed


def client(web: Web | None = None, names: dict[str, list[list[str]]] | None = None) -> EgressClient:
    """One for which the port of a test's server is outside."""
    allow = parse_allow([] if web is None else [f"127.0.0.1:{web.port}"])
    return EgressClient(allow, FixedResolver(names) if names is not None else None)


async def test_a_name_is_resolved_once_and_the_request_uses_that_address(start: Start) -> None:
    web = await start()
    resolver = FixedResolver({"page.example": [["127.0.0.1"], ["10.0.0.1"]]})
    egress = EgressClient(parse_allow([f"127.0.0.1:{web.port}"]), resolver)
    answer = await egress.fetch(EgressRequest(url=f"http://page.example:{web.port}/a?b=c"))
    assert (answer.status, answer.body, answer.truncated) == (200, b"hi", False)
    assert resolver.asked == ["page.example"]
    assert web.came[0].startswith(f"GET /a?b=c HTTP/1.1\r\nhost: page.example:{web.port}\r\n")


async def test_a_name_that_is_rebound_between_two_hops_is_refused_at_the_second(start: Start) -> None:
    web = await start()
    web.send_on("/again")
    egress = client(web, {"page.example": [["127.0.0.1"], ["127.0.0.2"]]})
    with pytest.raises(EgressDenied):
        await egress.fetch(EgressRequest(url=f"http://page.example:{web.port}/"))
    assert len(web.came) == 1


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["::ffff:127.0.0.1"], ["169.254.169.254"]]
)
async def test_a_name_with_one_address_inside_is_refused_before_anything_is_sent(
    start: Start, addresses: list[str]
) -> None:
    web = await start()
    with pytest.raises(EgressDenied) as refused:
        await client(None, {"evil.example": [addresses]}).fetch(EgressRequest(url=f"http://evil.example:{web.port}/"))
    assert "egress_allow" in refused.value.hint
    assert web.came == []


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/",
        "http://localhost:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "http://0x7f000001:{port}/",
        "http://2130706433:{port}/",
        "http://0177.0.0.1:{port}/",
        "http://127.1:{port}/",
        "http://1.1:{port}/",
        "http://169.254.169.254/latest/meta-data/",
        "http://user@127.0.0.1:{port}/",
        "http://example.org\\@127.0.0.1:{port}/",
        "http://127.0.0.1:{port}/#x",
        "ftp://127.0.0.1:{port}/",
        "file:///etc/passwd",
        "http:///",
        "http://127.0.0.1:99999/",
        "http://ex ample.org/",
        "http://a.example/" + "x" * 5000,
    ],
)
async def test_no_spelling_of_a_url_leads_inside(start: Start, url: str) -> None:
    web = await start()
    with pytest.raises(EgressDenied) as refused:
        await client().fetch(EgressRequest(url=url.replace("{port}", str(web.port))))
    assert refused.value.hint
    assert web.came == []


async def test_a_redirect_inside_is_refused_and_a_long_chain_ends(start: Start) -> None:
    web, secret = await start(), await start()
    web.send_on(f"http://127.0.0.1:{secret.port}/")
    with pytest.raises(EgressDenied):
        await client(web).fetch(EgressRequest(url=f"http://127.0.0.1:{web.port}/"))
    assert secret.came == []
    for number in range(6):
        web.send_on(f"/{number}")
    with pytest.raises(EgressDenied, match="redirects"):
        await client(web).fetch(EgressRequest(url=f"http://127.0.0.1:{web.port}/"))
    assert len(web.came) == 1 + 6
    web.answers.clear()
    web.send_on("/last")
    followed = await client(web).fetch(EgressRequest(url=f"http://127.0.0.1:{web.port}/"))
    assert (followed.status, followed.url) == (200, f"http://127.0.0.1:{web.port}/last")
    web.send_on("/last")
    itself = await client(web).fetch(EgressRequest(url=f"http://127.0.0.1:{web.port}/", redirects=0))
    assert (itself.status, itself.header("location")) == (302, "/last")


async def test_credentials_are_not_sent_to_another_origin(start: Start) -> None:
    first, second = await start(), await start()
    egress = EgressClient(parse_allow(["127.0.0.0/8"]))
    headers = (("Authorization", "Bearer x"), ("X-Key", "y"), ("Accept", "text/plain"))
    first.send_on(f"http://127.0.0.1:{second.port}/")
    await egress.fetch(EgressRequest(url=f"http://127.0.0.1:{first.port}/", headers=headers))
    assert "Bearer x" in first.came[0]
    assert "Bearer" not in second.came[0]
    assert "x-key" not in second.came[0].lower()
    assert "text/plain" in second.came[0]
    first.send_on(f"http://127.0.0.1:{second.port}/", 307)
    post = EgressRequest(url=f"http://127.0.0.1:{first.port}/", method="POST", body=b"for the first")
    with pytest.raises(EgressDenied):
        await egress.fetch(post)
    assert len(second.came) == 1
    first.send_on("/here", 303)
    assert (await egress.fetch(post)).status == 200
    assert first.came[-1].startswith("GET /here ")
    assert first.bodies[-1] == b""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Host", "inside"),
        ("Content-Length", "5"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "upgrade"),
        ("Proxy-Authorization", "x"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-HTTP-Method-Override", "DELETE"),
        ("X-A: b\r\nX-C", "d"),
        ("X-A", "b\r\nHost: inside"),
        ("X-A", "b\0"),
        ("X-A", "x" * 9000),
        ("Cookie", "a=b"),
    ],
)
async def test_a_header_that_controls_the_connection_is_not_sent(start: Start, name: str, value: str) -> None:
    web = await start()
    with pytest.raises(EgressDenied):
        await client(web).fetch(EgressRequest(url=f"http://127.0.0.1:{web.port}/", headers=((name, value),)))
    assert web.came == []


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "get", "GET / HTTP/1.1\r\nX: y\r\n\r\nGET", ""])
async def test_a_method_that_is_not_listed_is_not_sent(start: Start, method: str) -> None:
    web = await start()
    with pytest.raises(EgressDenied):
        await client(web).fetch(EgressRequest(url=f"http://127.0.0.1:{web.port}/", method=method))
    assert web.came == []


async def test_a_response_is_truncated_at_its_limit_and_marked(start: Start) -> None:
    web = await start()
    web.answers += [b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n" + b"x" * 5000] * 2
    cut = await client(web).fetch(EgressRequest(url=f"http://127.0.0.1:{web.port}/", max_bytes=1000))
    assert (len(cut.body), cut.truncated) == (1000, True)
    head = await client(web).fetch(EgressRequest(url=f"http://127.0.0.1:{web.port}/", method="HEAD"))
    assert (head.status, head.body) == (200, b"")
    web.answers.append(b"HTTP/1.1 200 OK\r\n" + b"x-more: %b\r\n" % (b"y" * 8000) * 100)
    with pytest.raises(ToolFailed, match="head"):
        await client(web).fetch(EgressRequest(url=f"http://127.0.0.1:{web.port}/"))


async def test_a_short_body_is_returned_as_received(start: Start) -> None:
    web = await start()
    web.answers.append(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\npart")
    answer = await client(web).fetch(EgressRequest(url=f"http://127.0.0.1:{web.port}/"))
    assert (answer.body, answer.truncated) == (b"part", False)


async def test_a_protocol_upgrade_response_is_refused(start: Start) -> None:
    web = await start()
    web.answers.append(b"HTTP/1.1 101 Other\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n")
    with pytest.raises(ToolFailed):
        await client(web).fetch(EgressRequest(url=f"http://127.0.0.1:{web.port}/"))


async def test_an_unsent_request_fails_and_a_sent_request_has_an_unknown_outcome(start: Start) -> None:
    web = await start()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    egress = EgressClient(parse_allow(["127.0.0.0/8"]))
    with pytest.raises(ToolFailed):
        await egress.fetch(EgressRequest(url=f"http://127.0.0.1:{free}/", method="POST"))
    web.answers += [b"", b"", b"no HTTP at all\r\n\r\n"]
    with pytest.raises(ToolFailed):
        await egress.fetch(EgressRequest(url=f"http://127.0.0.1:{web.port}/"))
    for _ in range(2):
        with pytest.raises(OutcomeUnknown):
            await egress.fetch(EgressRequest(url=f"http://127.0.0.1:{web.port}/", method="POST", body=b"x"))


async def test_an_internal_name_and_an_unknown_name_get_the_same_answer(start: Start) -> None:
    web = await start()
    names = {"wiki.example": [["10.0.0.7"]], "page.example": [["127.0.0.1"]]}
    egress = client(web, names)
    answers: list[tuple[str, str, str, bool]] = []
    for name in ("wiki.example", "none.example"):
        for url in (f"http://{name}/", f"http://page.example:{web.port}/"):
            web.answers.clear()
            web.send_on(f"http://{name}/")
            with pytest.raises(EgressDenied) as refused:
                await egress.fetch(EgressRequest(url=url))
            said = refused.value
            answers.append(
                (said.code, said.message.replace(name, "NAME"), said.hint.replace(name, "NAME"), said.retryable)
            )
        web.answers.clear()
        web.send_on(f"http://{name}/", 303)
        with pytest.raises(OutcomeUnknown):  # the first hop changed something
            await egress.fetch(EgressRequest(url=f"http://page.example:{web.port}/", method="POST", body=b"x"))
    assert len(set(answers)) == 1
    assert "10.0.0.7" not in str(answers)


async def test_a_silent_server_times_out() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        egress = EgressClient(parse_allow(["127.0.0.0/8"]))
        with pytest.raises(ToolFailed, match="no answer"):
            await egress.fetch(EgressRequest(url=f"http://127.0.0.1:{deaf.getsockname()[1]}/", timeout_s=0.2))


async def test_a_response_with_endless_trailers_is_abandoned(start: Start) -> None:
    web = await start()
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-more\r\n\r\n2\r\nhi\r\n0\r\n"
    web.answers.append(head + b"x-more: 1\r\n\r\n")
    answer = await client(web).fetch(EgressRequest(url=f"http://127.0.0.1:{web.port}/", max_bytes=1000))
    assert (answer.body, answer.header("x-more")) == (b"hi", None)
    for endless in (b"x-more: %b\r\n" % (b"y" * 50), b"y"):
        web.answers.append(head + b"x-more: " + endless * (4 * 1024 * 1024 // len(endless)))
        with pytest.raises(ToolFailed, match="continues"):
            await client(web).fetch(EgressRequest(url=f"http://127.0.0.1:{web.port}/", max_bytes=1000))


async def test_waiting_for_a_slot_is_part_of_the_time_limit() -> None:
    accepted = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set()
        with contextlib.closing(writer):
            await reader.read()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as deaf:
        url = f"http://127.0.0.1:{deaf.sockets[0].getsockname()[1]}/"
        egress = EgressClient(parse_allow(["127.0.0.0/8"]), at_once=1)
        first = asyncio.create_task(egress.fetch(EgressRequest(url=url, timeout_s=60)))
        await accepted.wait()
        async with asyncio.timeout(120):
            with pytest.raises(ToolFailed, match="too many outgoing"):
                await egress.fetch(EgressRequest(url=url, timeout_s=0.1))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


async def test_unanswered_name_lookups_delay_no_other_work() -> None:
    answered = threading.Event()

    def lookup(*_: object, **__: object) -> list[object]:
        answered.wait(60)
        raise OSError("nobody answered")

    resolver = SystemResolver(lookup)
    asked = [asyncio.create_task(resolver.addresses(f"{number}.example")) for number in range(40)]
    try:
        await asyncio.sleep(0)  # each has asked by then
        async with asyncio.timeout(120):
            assert await asyncio.to_thread(lambda: "done") == "done"
    finally:
        answered.set()
        await asyncio.gather(*asked, return_exceptions=True)


async def test_tls_verifies_the_name_and_not_the_address(start: Start, identity: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identity)
    web = await start(context)
    allow = parse_allow(["127.0.0.0/8"])
    resolver = FixedResolver({"page.example": [["127.0.0.1"]], "other.example": [["127.0.0.1"]]})

    def trusting() -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(identity))

    egress = EgressClient(allow, resolver, trusting)
    assert (await egress.fetch(EgressRequest(url=f"https://page.example:{web.port}/"))).status == 200
    with pytest.raises(ToolFailed):
        await egress.fetch(EgressRequest(url=f"https://other.example:{web.port}/"))
    with pytest.raises(ToolFailed):
        await EgressClient(allow, resolver).fetch(EgressRequest(url=f"https://page.example:{web.port}/"))
    assert len(web.came) == 1
    web.send_on("http://page.example/plain")
    with pytest.raises(EgressDenied, match="plain http"):
        await egress.fetch(EgressRequest(url=f"https://page.example:{web.port}/"))


async def test_the_proxy_of_the_environment_gets_no_request(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    web, proxy = await start(), await start()
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    assert (await client(web).fetch(EgressRequest(url=f"http://127.0.0.1:{web.port}/"))).status == 200
    assert proxy.came == []


def test_an_invalid_allow_setting_is_refused_at_startup() -> None:
    with pytest.raises(SettingsError) as refused:
        EgressClient.of_setting(["10.0.0.1/8"])
    assert (refused.value.details["field"], bool(refused.value.hint)) == ("egress_allow", True)
