"""The clients for plugins: answers, limits and errors, over real sockets and through a proxy that refuses."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from websockets.asyncio.server import serve

from bollard.sdk.http import (
    AnswerTooLarge,
    BadStatus,
    Client,
    InvalidAnswer,
    NoAnswer,
    NotConnected,
    PermissionMissing,
    Upload,
)
from bollard.sdk.websocket import SocketClosed, connect

pytestmark = pytest.mark.anyio
Begin = Callable[..., Awaitable[int]]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"
DENIED = "spec.sandbox.network of acme/parrot does not admit "


@pytest.fixture
async def begin() -> AsyncIterator[Begin]:
    """Servers that give one answer to each connection; a test reads what they received."""
    servers: list[asyncio.Server] = []

    async def start(answer: bytes, *, hangs: bool = False, came: list[bytes] | None = None) -> int:
        async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError, EOFError):
                head = await reader.readuntil(b"\r\n\r\n")
                if came is not None:
                    length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                    came.append(head + await reader.readexactly(int(length[0].split(b":")[1]) if length else 0))
                writer.write(answer)
                await writer.drain()
                if hangs:
                    await reader.read()
            writer.close()

        servers.append(await asyncio.start_server(serve_one, "127.0.0.1", 0))
        return servers[-1].sockets[0].getsockname()[1]

    yield start
    for server in servers:
        server.close()


async def test_a_multipart_upload_has_its_files_and_fields(begin: Begin) -> None:
    came: list[bytes] = []
    port = await begin(OK, came=came)
    async with Client(f"http://127.0.0.1:{port}", headers={"authorization": "Bearer x"}) as client:
        files = {"photo": Upload(name="a.png", content=b"PNG", media_type="image/png")}
        answer = await client.post("/up?token=1", form={"chat": "7"}, files=files)
    assert (answer.text, answer.place) == ("hi", f"http://127.0.0.1:{port}/up")
    for part in (b"Bearer x", b'name="chat"', b'filename="a.png"', b"image/png", b"PNG"):
        assert part in came[0]


async def test_an_answer_beyond_the_limit_is_cut_off(begin: Begin) -> None:
    port = await begin(b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n" + bytes(5000))
    async with Client(f"http://127.0.0.1:{port}", max_bytes=4999) as client:
        with pytest.raises(AnswerTooLarge) as refused:
            await client.get("/")
    assert refused.value.limit == 4999


async def test_what_failed_before_the_request_differs_from_what_failed_after(begin: Begin) -> None:
    silent = await begin(b"", hangs=True)
    short = await begin(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhi")
    async with Client(timeout_s=0.2) as client:
        for port in (silent, short):
            with pytest.raises(NoAnswer):
                await client.get(f"http://127.0.0.1:{port}/?key=secret")
        for url in ("http://127.0.0.1:1/?key=secret", "nothing", "ftp://a.org/"):
            with pytest.raises(NotConnected) as failed:
                await client.get(url)
            assert "secret" not in str(failed.value)


async def test_json_that_is_none_and_a_bad_status_are_typed(begin: Begin) -> None:
    port = await begin(b"HTTP/1.1 500 Oops\r\ncontent-length: 2\r\n\r\nhi")
    async with Client() as client:
        answer = await client.get(f"http://127.0.0.1:{port}/")
    with pytest.raises(InvalidAnswer):
        answer.json()
    with pytest.raises(BadStatus) as failed:
        answer.check()
    assert (failed.value.status, failed.value.body) == (500, b"hi")


async def test_a_compressed_answer_is_refused(begin: Begin) -> None:
    came: list[bytes] = []
    port = await begin(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\nhi", came=came)
    async with Client() as client:
        with pytest.raises(InvalidAnswer):
            await client.get(f"http://127.0.0.1:{port}/")
    assert b"accept-encoding: identity" in came[0].lower()


async def test_a_cancelled_request_closes_its_connection(begin: Begin) -> None:
    came: list[bytes] = []
    port = await begin(b"HTTP/1.1 200 OK\r\n\r\npart", hangs=True, came=came)
    async with Client() as client:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await client.get(f"http://127.0.0.1:{port}/")
    assert len(came) == 1


async def test_a_missing_permission_is_named(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    head = f"HTTP/1.1 403 {DENIED}api.example.org:80\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    port = await begin(head.encode())
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
    async with Client() as client:
        for url in ("http://api.example.org/", "https://api.example.org/"):
            with pytest.raises(PermissionMissing, match=r"spec\.sandbox\.network"):
                await client.get(url)
    for url in ("ws://api.example.org/", "wss://api.example.org/"):
        with pytest.raises(PermissionMissing, match=r"spec\.sandbox\.network"):
            async with connect(url):
                pass


async def test_without_a_network_the_permission_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOLLARD_SANDBOX_NETWORK", "none")
    async with Client(timeout_s=5.0) as client:
        with pytest.raises(PermissionMissing, match=r"spec\.sandbox\.network of this plugin is none"):
            await client.get("http://nowhere.invalid/")
        with pytest.raises(NotConnected):  # a service of its own needs no permission
            await client.get("http://127.0.0.1:1/")
    with pytest.raises(PermissionMissing, match=r"spec\.sandbox\.network of this plugin is none"):
        async with connect("ws://nowhere.invalid/"):
            pass


async def test_a_websocket_reports_its_end() -> None:
    async def answer(connection: Any) -> None:
        word = await connection.recv()
        if word == "large":
            await connection.send("x" * 2000)
        elif word == "end":
            await connection.send("bye")
        else:
            await connection.close(4001, "no")
        await connection.wait_closed() if word == "large" else None

    async with serve(answer, "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/?token=secret"
        async with connect(url, max_bytes=1000) as socket:
            assert await socket.ping() >= 0
            await socket.send("end")
            assert [message async for message in socket] == ["bye"]
        for word, code in (("large", 1009), ("close", 4001)):
            async with connect(url, max_bytes=1000) as socket:
                await socket.send(word)
                with pytest.raises(SocketClosed) as closed:
                    await socket.receive()
                assert closed.value.code == code
                assert "secret" not in str(closed.value)


async def test_a_server_that_is_no_websocket_is_refused(begin: Begin) -> None:
    port = await begin(b"HTTP/1.1 401 No\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi")
    with pytest.raises(BadStatus) as refused:
        async with connect(f"ws://127.0.0.1:{port}/"):
            pass
    assert refused.value.status == 401
    for url in ("ws://127.0.0.1:1/", "http://a.example/"):
        with pytest.raises(NotConnected):
            async with connect(url):
                pass
