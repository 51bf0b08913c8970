"""Connections to providers: kept and not kept, every wait and every size with its bound, and where they never lead."""

import asyncio
import datetime
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.doubles.fixed_resolver import FixedResolver
from tests.host.models.answers import SPOKEN
from tests.host.models.conftest import Open
from tests.host.models.provider import KEY, PATIENCE_S, Provider, Reply, call, provider, whole
from tests.tables import for_each

from bollard.host.egress.connections import Connections, Judge, trusted
from bollard.host.egress.destination import Destination
from bollard.host.errors import InvalidRequest, ModelFailed
from bollard.host.models.backends import open_backend
from bollard.host.models.calls import provider_addresses, provider_problem
from bollard.host.models.endpoint import Endpoint

FINE = SPOKEN[0].whole


def judge_of(names: FixedResolver) -> Judge:
    """As for a provider that the environment names."""
    return lambda place, within_s: provider_addresses(place, within_s, lambda: names)


def endpoint(
    there: Provider, url: str, judge: Judge, tls: Callable[[], ssl.SSLContext] = trusted, connect_s: float = PATIENCE_S
) -> Endpoint:
    return Endpoint(there.spec(base_url=url), Connections(Destination.of(url), connect_s, judge, tls))


async def refusal(asked: Any) -> ModelFailed:
    with pytest.raises(ModelFailed) as told:
        async with asyncio.timeout(PATIENCE_S):
            await asked
    return told.value


async def test_a_connection_is_reused_and_a_closed_one_is_replaced(there: Provider, opened: Open) -> None:
    backend = opened()
    there.say(*(whole(FINE) for _ in range(5)))
    await backend.invoke(call(), KEY)
    await backend.invoke(call(), KEY)
    assert there.connections == 1
    there.closes = True
    await backend.invoke(call(), KEY)
    async with asyncio.timeout(PATIENCE_S):
        await there.gone.wait()
    await backend.invoke(call(), KEY)
    await backend.invoke(call(), KEY)
    assert len(there.asked) == 5
    assert there.connections == 3


async def test_a_request_lost_on_a_kept_connection_is_repeated_on_a_new_one(there: Provider, opened: Open) -> None:
    backend = opened()
    there.say(whole(FINE), Reply(raw=b"", end="cut"), whole(FINE))
    await backend.invoke(call(), KEY)
    await backend.invoke(call(), KEY)
    assert (len(there.asked), there.connections) == (3, 2)
    there.say(Reply(raw=b"", end="cut"), Reply(raw=b"", end="cut"))
    error = await refusal(backend.invoke(call(), KEY))
    assert error.details["reason"] == "broken_answer", "a new connection is no excuse"
    assert (len(there.asked), there.connections) == (5, 3)


async def test_concurrent_calls_have_separate_connections_and_few_are_kept(
    there: Provider, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bollard.host.egress.connections.EGRESS_KEPT_CONNECTIONS", 2)
    backend = opened()
    gate = asyncio.Event()
    text = b'{"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}'
    there.say(*(Reply([text[:9], text[9:]], kind="application/json", gate=gate) for _ in range(5)))
    asking = [asyncio.create_task(backend.invoke(call(), KEY)) for _ in range(5)]
    await there.until_asked(5)
    async with asyncio.timeout(PATIENCE_S):
        gate.set()
        await asyncio.gather(*asking)
    there.say(*(whole(FINE) for _ in range(3)))
    for _ in range(3):
        await backend.invoke(call(), KEY)
    assert there.connections == 5
    await backend.close()
    there.say(whole(FINE))
    await backend.invoke(call(), KEY)
    assert there.connections == 6, "nothing is kept behind the end"


@pytest.mark.parametrize("how", ["said", "length"])
async def test_an_answer_without_keep_alive_closes_its_connection(how: str, there: Provider, opened: Open) -> None:
    """`connection: close`, and an answer with a second one behind it, which would answer the next question."""
    backend = opened()
    body = b'{"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}'
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n"
    if how == "said":
        there.say(Reply(raw=f"{head}connection: close\r\n\r\n".encode() + body))
    else:
        one = f"{head}\r\n".encode() + body
        there.say(Reply(raw=one + one.replace(b'"x"', b'"y"')))
    there.say(whole(FINE))
    assert (await backend.invoke(call(), KEY)).content == "x"
    assert (await backend.invoke(call(), KEY)).content == FINE["choices"][0]["message"]["content"]
    assert there.connections == 2


async def test_an_interim_response_is_not_the_answer(there: Provider, opened: Open) -> None:
    body = b'{"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}'
    early = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    there.say(Reply(raw=early + f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body))
    assert (await opened().invoke(call(), KEY)).content == "x"


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"SSH-2.0-nothing\r\n", "not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 80_000, "head"),
        (b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\nxx", "compressed"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{}", "middle"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "not valid HTTP"),
        (b"HTTP/1.1 101 Other\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n", ""),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", ""),
    ],
)
async def test_an_invalid_http_response_is_a_broken_answer(
    raw: bytes, problem: str, there: Provider, opened: Open
) -> None:
    there.say(Reply(raw=raw, end="cut"))
    error = await refusal(opened().invoke(call(), KEY))
    assert error.details["reason"] == "broken_answer"
    assert problem in error.message
    assert not error.retryable


async def test_an_answer_has_a_maximum_size(there: Provider, opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bollard.host.models.endpoint.ANSWER_BYTES", 4096)
    there.say(Reply([b"x" * 1000] * 9, kind="application/json"))
    assert "larger than 4096" in (await refusal(opened().invoke(call(), KEY))).message
    trailers = b"x-y: z\r\n" * 20_000
    there.say(
        Reply(raw=b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n" + trailers, end="silent")
    )
    assert "without content" in (await refusal(opened().invoke(call(), KEY))).message


async def test_a_silent_provider_times_out(there: Provider, opened: Open) -> None:
    silent = Reply(end="nothing")
    there.say(silent, silent)
    impatient = opened(first_token_s=0.05, idle_s=0.05)
    error = await refusal(impatient.invoke(call(), KEY))
    assert (error.details["reason"], error.retryable) == ("timeout", True)
    error = await refusal(anext(impatient.stream(call(), KEY)))
    assert error.details["reason"] == "timeout"


async def test_comments_do_not_count_as_the_first_token(there: Provider, opened: Open) -> None:
    there.say(Reply([b": still here\n\n"] * 3, end="silent"))
    error = await refusal(anext(opened(first_token_s=0.05).stream(call(), KEY)))
    assert (error.details["reason"], error.details["emitted"]) == ("timeout", False)


async def test_a_pause_that_is_too_long_ends_an_answer(there: Provider, opened: Open) -> None:
    there.say(Reply([b'data: {"choices": [{"delta": {"content": "x"}}]}\n\n'], end="silent"))
    chunks = opened(idle_s=0.05).stream(call(), KEY)
    async with asyncio.timeout(PATIENCE_S):
        assert (await anext(chunks)).content == "x"
    error = await refusal(anext(chunks))
    assert (error.details["reason"], error.details["emitted"], error.retryable) == ("timeout", True, False)


async def test_an_endless_error_body_is_still_an_error(there: Provider, opened: Open) -> None:
    there.say(
        Reply([b"busy"], status=503, kind="text/plain", end="silent"),
        Reply([b"x" * 1000] * 100, status=400, end="silent"),
    )
    backend = opened(idle_s=2.0)
    error = await refusal(backend.invoke(call(), KEY))
    assert (error.details["reason"], error.details["status"]) == ("overloaded", 503)
    assert "busy" in error.provider_words
    assert (await refusal(backend.invoke(call(), KEY))).details["reason"] == "invalid_request"


async def test_a_refusal_before_the_whole_request_is_read_is_understood(there: Provider, opened: Open) -> None:
    there.say(whole({"error": {"message": "too big"}}, status=413))
    error = await refusal(opened().invoke(call("x" * 3_000_000), KEY))
    assert error.details["status"] == 413


async def test_a_redirect_is_not_followed(there: Provider, opened: Open) -> None:
    there.say(Reply(status=307, headers={"location": f"http://127.0.0.1:{there.port}/v2"}))
    error = await refusal(opened().invoke(call(), KEY))
    assert (error.details["reason"], error.details["status"]) == ("invalid_request", 307)
    assert len(there.asked) == 1


async def test_a_silent_address_leaves_time_for_the_next(there: Provider) -> None:
    deaf = socket.socket()
    deaf.bind(("127.0.0.2", there.port))
    deaf.listen(0)
    full = [socket.socket() for _ in range(4)]
    for each in full:
        each.setblocking(False)
        each.connect_ex(("127.0.0.2", there.port))
    names = FixedResolver({"models.example": [["127.0.0.2", "127.0.0.1"]]})
    served = endpoint(there, f"http://models.example:{there.port}/v1", judge_of(names), connect_s=5.0)
    there.say(whole({}))
    async with served.asked("/x", {}, (), None) as answer:
        assert answer.status == 200
    await served.close()
    for each in (deaf, *full):
        each.close()


async def test_a_closed_port_is_unreachable(there: Provider) -> None:
    server = await asyncio.start_server(there.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    backend = open_backend(there.spec(base_url=f"http://127.0.0.1:{port}/v1"), provider_addresses)
    error = await refusal(backend.invoke(call(), KEY))
    assert (error.details["reason"], error.retryable) == ("unreachable", True)


@for_each(
    "address",
    [
        "169.254.169.254",
        "0.0.0.0",
        "100.100.100.200",
        "168.63.129.16",
        "224.0.0.1",
        "255.255.255.255",
        "fd00:ec2::254",
        "fe80::1",
        "ff02::1",
        "::",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
        "::a9fe:a9fe",
    ],
)
def test_an_address_without_a_provider_is_refused_in_every_spelling(address: str) -> None:
    assert provider_problem(ip_address(address)) is not None


@for_each("address", ["127.0.0.1", "::1", "10.0.0.8", "192.168.1.4", "8.8.8.8", "fd12::1", "2600::1"])
def test_an_operator_may_allow_this_machine_and_the_internal_network(address: str) -> None:
    assert provider_problem(ip_address(address)) is None


async def test_a_name_is_checked_with_all_its_addresses(there: Provider) -> None:
    names = FixedResolver({"models.example": [["127.0.0.1", "169.254.169.254"], ["127.0.0.1"], []]})
    served = endpoint(there, f"http://models.example:{there.port}/v1", judge_of(names))
    with pytest.raises(ModelFailed, match=r"169\.254\.169\.254") as told:
        async with served.asked("/x", {}, (), None):
            raise AssertionError
    assert told.value.details["reason"] == "unreachable"
    assert there.connections == 0
    there.say(whole({}))
    async with served.asked("/x", {}, (), None) as answer:
        assert answer.status == 200
    assert there.asked[0].headers["host"] == f"models.example:{there.port}"
    await served.close()
    unknown = endpoint(there, "http://nobody.example/v1", judge_of(names))
    with pytest.raises(ModelFailed) as told:
        async with unknown.asked("/x", {}, (), None):
            raise AssertionError
    assert told.value.details["reason"] == "unreachable"


@pytest.mark.parametrize("url", ["", "ftp://x/v1", "http://user:pass@x/v1", "http://x y/v1"])
async def test_an_invalid_base_url_is_refused_at_once(url: str, there: Provider) -> None:
    with pytest.raises(InvalidRequest) as told:
        open_backend(there.spec(base_url=url), provider_addresses)
    assert told.value.details["field"] == "base_url"


@pytest.fixture
async def trusted(tmp_path: Path) -> AsyncIterator[tuple[Provider, ssl.SSLContext]]:
    """A provider with its own certificate, and a context that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = tmp_path / "provider.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(pem)
    client = ssl.create_default_context(cadata=certificate.public_bytes(serialization.Encoding.PEM).decode())
    async with provider(served) as it:
        yield it, client


async def test_tls_is_verified_and_its_connections_are_kept_too(trusted: tuple[Provider, ssl.SSLContext]) -> None:
    there, context = trusted
    url = f"https://127.0.0.1:{there.port}/v1"
    served = endpoint(there, url, provider_addresses, lambda: context)
    there.say(whole({"n": 1}), whole({"n": 2}))
    for expected in (b'{"n": 1}', b'{"n": 2}'):
        async with served.asked("/x", {}, (), None) as answer:
            assert await answer.whole() == expected
    assert len(there.asked) == 2
    assert there.connections == 1
    await served.close()
    strangers = endpoint(there, url, provider_addresses)
    with pytest.raises(ModelFailed, match="certificate") as told:
        async with strangers.asked("/x", {}, (), None):
            raise AssertionError
    assert told.value.details["reason"] == "unreachable"
