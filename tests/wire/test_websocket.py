"""The worker connection over WebSockets: against the library's client, against other servers, and over TLS."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.doubles.websocket_server import serve_websocket
from tests.tables import for_each
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from bollard.protocol import limits
from bollard.wire import ChannelClosed, IncompatiblePeer, Peer, StreamTransport, encode
from bollard.wire.limits import WRITE_HARD_LIMIT_BYTES
from bollard.wire.websocket import CHANNEL_SUBPROTOCOL, WebSocketCodec, connect_websocket

PATIENCE_S = 120.0
TLS = Path(__file__).parent / "tls"  # an untrusted certificate for localhost, made for this test


class Server:
    """A listening host and the connections it accepted."""

    def __init__(self, make_listener: Any) -> None:
        self._make_listener = make_listener
        self.listeners: list[Any] = []
        self.transports: list[StreamTransport] = []
        self.requests: list[Any] = []
        self.port = 0
        self._accepted = asyncio.Event()

    async def accept(self, transport: StreamTransport, request: Any) -> None:
        listener = self._make_listener()
        Peer(transport, listener).start()
        self.listeners.append(listener)
        self.transports.append(transport)
        self.requests.append(request)
        self._accepted.set()

    async def accepted(self) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            await self._accepted.wait()
        return self.listeners[0]

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/channel"


@pytest.fixture
async def server(make_listener: Any, stack: contextlib.AsyncExitStack) -> AsyncIterator[Server]:
    serving = Server(make_listener)
    listening = await serve_websocket(serving.accept, "127.0.0.1", 0)
    serving.port = listening.sockets[0].getsockname()[1]
    yield serving
    listening.close()
    for transport in serving.transports:
        transport.close("the test is over")


@pytest.fixture
def dial(server: Server) -> Callable[[], Any]:
    """The library's own client, which speaks WebSocket and knows nothing of the channel."""
    return lambda: connect(server.url, subprotocols=[CHANNEL_SUBPROTOCOL], max_size=None, compression=None)


# --- messages ---


async def test_a_text_message_is_a_frame_and_the_answer_is_one(server: Server, dial: Any) -> None:
    async with dial() as client:
        await client.send('{"jsonrpc":"2.0","id":1,"method":"m"}')
        assert await client.recv() == '{"jsonrpc":"2.0","id":1,"result":{"method":"m","params":{}}}'
        assert client.subprotocol == "bollard.v1"


async def test_the_server_sees_the_request_of_the_client(server: Server) -> None:
    transport = await connect_websocket(server.url, headers=[("Authorization", "Bearer x")])
    await server.accepted()
    assert server.requests[0].path == "/channel"
    assert server.requests[0].headers["Authorization"] == "Bearer x"
    transport.close("bye")


@pytest.mark.requirement("P11-48")
async def test_a_fragmented_message_is_one_frame(server: Server, dial: Any) -> None:
    async with dial() as client:
        await client.send(["", '{"jsonrpc":"2.0",', "", '"id":1,"method":"', "好", '"}', ""])
        assert '"method":"好"' in await client.recv()
    assert not server.listeners[0].faults


async def test_a_binary_message_is_a_fault_and_the_connection_continues(server: Server, dial: Any) -> None:
    async with dial() as client:
        await client.send(b'{"jsonrpc":"2.0","id":1,"method":"m"}')
        await client.send([b'{"jsonrpc":"2.0",', b'"id":2,"method":"m"}', b""])
        await client.send('{"jsonrpc":"2.0","id":3,"method":"m"}')
        assert '"id":3' in await client.recv()
    assert server.listeners[0].faults == ["binary", "binary"]
    assert [call.id for call in server.listeners[0].calls] == [3]


async def test_invalid_utf_8_text_is_a_fault_of_the_frame(server: Server, dial: Any) -> None:
    async with dial() as client:
        client.protocol.send_text(b'"\xff"')
        await client.send('{"jsonrpc":"2.0","id":3,"method":"m"}')
        assert '"id":3' in await client.recv()
    assert server.listeners[0].faults == ["encoding"]


@pytest.mark.parametrize("fragments", [1, 7])
async def test_a_message_larger_than_a_frame_ends_the_connection_with_a_clear_reason(
    server: Server, dial: Any, fragments: int
) -> None:
    text = "x" * (limits.FRAME_BYTES + 1)
    size = len(text) // fragments + 1
    async with dial() as client:
        listener = await server.accepted()
        with contextlib.suppress(ConnectionClosed):
            await client.send([text[at : at + size] for at in range(0, len(text), size)])
        await listener.until(lambda: listener.reasons)
        assert "larger than a frame" in listener.reasons[0]
        with contextlib.suppress(ConnectionClosed):
            await client.recv()
        assert client.close_code == 1009


async def test_a_message_of_exactly_a_frame_passes(server: Server, dial: Any) -> None:
    head, tail = '{"jsonrpc":"2.0","id":1,"method":"m","params":{"t":"', '"}}'
    async with dial() as client:
        await client.send(head + "x" * (limits.FRAME_BYTES - len(head) - len(tail)) + tail)
        assert "larger than a frame" in await client.recv()  # the echo of it does not fit, and that is said
    assert not server.listeners[0].faults


async def test_a_ping_is_answered(server: Server, dial: Any) -> None:
    async with dial() as client, asyncio.timeout(PATIENCE_S):
        await (await client.ping(b"hello"))


# --- closing ---


async def test_both_sides_learn_the_close_reason_of_the_other(server: Server, make_listener: Any) -> None:
    ours = make_listener()
    peer = Peer(await connect_websocket(server.url), ours)
    peer.start()
    theirs = await server.accepted()
    await peer.call("m", {})
    server.transports[0].close("the host stops: " + "x" * 200)
    await ours.until(lambda: ours.reasons)
    assert ours.reasons[0].startswith("the peer closed: the host stops: xxx")
    await theirs.until(lambda: theirs.reasons)
    assert theirs.reasons[0].startswith("the host stops: ")


async def test_a_client_that_disconnects_silently_is_noticed(server: Server, make_listener: Any) -> None:
    transport = await connect_websocket(server.url)
    ours = make_listener()
    Peer(transport, ours).start()
    theirs = await server.accepted()
    assert transport._stream is not None
    transport._stream.write_eof()  # half open: it would still read
    await theirs.until(lambda: theirs.reasons)
    await ours.until(lambda: ours.reasons)
    assert theirs.reasons == ["the peer closed the connection"]


async def test_a_client_that_disconnects_inside_a_message_leaves_a_fault(server: Server, dial: Any) -> None:
    async with dial() as client:
        theirs = await server.accepted()
        client.protocol.send_text(b'{"jsonrpc"', fin=False)
        client.transport.write(b"".join(client.protocol.data_to_send()))
        client.transport.abort() if client.transport.get_write_buffer_size() else client.transport.close()
        await theirs.until(lambda: theirs.reasons)
    assert theirs.faults == ["half_frame"]


class SlowStream(asyncio.Transport):
    """The asyncio side of a stream whose peer never reads: the test sets the fill of its buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.buffered = 0
        self.written = b""
        self.aborted = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def get_write_buffer_size(self) -> int:
        return self.buffered

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self.aborted

    def close(self) -> None:
        self.aborted = True

    def abort(self) -> None:
        self.aborted = True


def opening(key: str = "dGhlIHNhbXBsZSBub25jZQ==") -> bytes:
    return (
        "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: bollard.v1\r\n\r\n"
    ).encode()


def message(data: bytes, opcode: Opcode = Opcode.TEXT, *, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=True)


@pytest.fixture
async def slow() -> tuple[SlowStream, StreamTransport]:
    """A server's side of a connection, its handshake done, on a stream that takes nothing."""
    codec = WebSocketCodec(ServerProtocol(subprotocols=[CHANNEL_SUBPROTOCOL], max_size=limits.FRAME_BYTES))
    stream, transport = SlowStream(), StreamTransport(codec)
    transport.connection_made(stream)
    transport.data_received(opening())
    assert stream.written.startswith(b"HTTP/1.1 101")
    return stream, transport


@pytest.mark.requirement("P11-46")
async def test_a_peer_that_pings_and_never_reads_is_cut_at_the_hard_limit(
    slow: tuple[SlowStream, StreamTransport], make_listener: Any
) -> None:
    stream, transport = slow
    Peer(transport, make_listener()).start()
    stream.buffered = WRITE_HARD_LIMIT_BYTES
    transport.data_received(message(b"x", Opcode.PING))
    assert not stream.aborted
    stream.buffered = WRITE_HARD_LIMIT_BYTES + 1
    transport.data_received(message(b"x", Opcode.PING))
    assert stream.aborted


@pytest.mark.requirement("P11-46")
async def test_empty_fragments_hold_no_memory(slow: tuple[SlowStream, StreamTransport], make_listener: Any) -> None:
    _, transport = slow
    listener = make_listener()
    Peer(transport, listener).start()
    transport.data_received(message(b"", fin=False) + message(b"", Opcode.CONT, fin=False) * 10_000)
    transport.data_received(message(b'{"jsonrpc":"2.0","method":"m"}', Opcode.CONT))
    assert [note.method for note in listener.notes] == ["m"]


# --- the handshake ---


async def test_a_frame_sent_with_the_handshake_of_the_client_is_not_lost(server: Server) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(opening() + message(encode({"jsonrpc": "2.0", "method": "early"})))
    listener = await server.accepted()
    await listener.until(lambda: listener.notes)
    assert [note.method for note in listener.notes] == ["early"]
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
    writer.close()


Respond = Callable[[bytes], bytes | None]


@pytest.fixture
async def stranger(stack: contextlib.AsyncExitStack) -> Callable[[Respond], Any]:
    """Starts a server on a free port that answers the first request with the bytes of a test."""

    async def start(respond: Respond) -> str:
        async def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            stack.callback(writer.close)
            request = await reader.readuntil(b"\r\n\r\n")
            answer = respond(request)
            if answer is None:
                writer.close()
            else:
                writer.write(answer)

        listening = await asyncio.start_server(welcome, "127.0.0.1", 0)
        stack.callback(listening.close)
        return f"ws://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"

    return start


def accepting(subprotocol: str | None, then: bytes = b"") -> Respond:
    def respond(request: bytes) -> bytes:
        protocol = ServerProtocol(subprotocols=[Subprotocol(subprotocol)] if subprotocol else None)
        protocol.receive_data(request)
        (opened,) = protocol.events_received()
        protocol.send_response(protocol.accept(opened))
        if then:
            protocol.send_text(then)
        return b"".join(protocol.data_to_send())

    return respond


async def test_a_frame_sent_with_the_handshake_of_the_server_is_not_lost(stranger: Any, make_listener: Any) -> None:
    url = await stranger(accepting("bollard.v1", encode({"jsonrpc": "2.0", "method": "early"})))
    transport = await connect_websocket(url)
    listener = make_listener()
    Peer(transport, listener).start()
    await listener.until(lambda: listener.notes)
    assert [note.method for note in listener.notes] == ["early"]
    transport.close("bye")


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"\x00\x01\x02\r\n\r\n",
    ],
)
async def test_a_port_without_a_websocket_is_refused_with_a_hint(stranger: Any, answer: bytes) -> None:
    url = await stranger(lambda _: answer)
    with pytest.raises(IncompatiblePeer) as caught:
        await connect_websocket(url)
    assert "check the address" in caught.value.hint


@pytest.mark.parametrize("subprotocol", [None, "chat"])
async def test_a_websocket_of_another_protocol_is_refused_with_a_hint(stranger: Any, subprotocol: str | None) -> None:
    respond = accepting(None)
    if subprotocol is not None:
        respond = lambda request: accepting(None)(request).replace(  # noqa: E731
            b"\r\n\r\n", b"\r\nSec-WebSocket-Protocol: chat\r\n\r\n"
        )
    url = await stranger(respond)
    with pytest.raises(IncompatiblePeer) as caught:
        await connect_websocket(url)
    assert "check the address" in caught.value.hint


async def test_a_server_that_disconnects_during_the_handshake_is_a_closed_connection(stranger: Any) -> None:
    url = await stranger(lambda _: None)
    with pytest.raises(ChannelClosed):
        await connect_websocket(url)


async def test_a_port_without_a_listener_is_a_closed_connection() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: no other process can listen there
        port = taken.getsockname()[1]
        with pytest.raises(ChannelClosed, match=f"127.0.0.1:{port}"):
            await connect_websocket(f"ws://127.0.0.1:{port}/")


@for_each("url", ["http://x/", "127.0.0.1:80", "", "ws://", "ws://x:port/", "ws://x/#part", "ws://[::1/"])
async def test_an_invalid_websocket_address_is_refused_with_a_hint(url: str) -> None:
    with pytest.raises(IncompatiblePeer) as caught:
        await connect_websocket(url)
    assert "ws://" in caught.value.hint


async def test_a_server_refuses_a_client_of_another_subprotocol(server: Server) -> None:
    with pytest.raises(InvalidStatus) as caught:
        async with connect(server.url):
            pass
    assert caught.value.response.status_code == 400
    assert not server.listeners


@pytest.mark.parametrize("request_", [b"hello\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 10_000])
async def test_a_server_survives_clients_without_the_websocket_protocol(
    server: Server, dial: Any, request_: bytes, trouble: list[Any]
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request_)
    async with asyncio.timeout(PATIENCE_S):
        with contextlib.suppress(ConnectionError):
            await reader.read()
    writer.close()
    async with dial() as client:
        await client.send('{"jsonrpc":"2.0","id":1,"method":"m"}')
        await client.recv()
    assert len(server.listeners) == 1
    assert not trouble


async def test_a_client_that_disconnects_during_the_handshake_leaves_nothing(
    server: Server, trouble: list[Any]
) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET / HTTP/1.1\r\n")
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    transport = await connect_websocket(server.url)
    await server.accepted()
    transport.close("bye")
    assert not trouble


# --- TLS ---


@pytest.fixture
async def tls_url(make_listener: Any, stack: contextlib.AsyncExitStack) -> str:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    serving = Server(make_listener)
    listening = await serve_websocket(serving.accept, "127.0.0.1", 0, tls=context)
    stack.callback(listening.close)
    stack.callback(lambda: [transport.close("the test is over") for transport in serving.transports])
    return f"wss://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"


async def test_the_connection_works_over_tls_with_a_trusted_certificate(tls_url: str, make_listener: Any) -> None:
    trusting = ssl.create_default_context(cafile=str(TLS / "certificate.pem"))
    listener = make_listener()
    peer = Peer(await connect_websocket(tls_url, tls=trusting), listener)
    peer.start()
    answers = await asyncio.gather(*(peer.call("m", {"text": "x" * 100_000, "n": number}) for number in range(50)))
    assert [answer["params"]["n"] for answer in answers] == list(range(50))
    peer.close("bye")
    await listener.until(lambda: listener.reasons)


async def test_an_untrusted_certificate_is_refused(tls_url: str) -> None:
    with pytest.raises(ChannelClosed, match=r"(?i)certificate"):
        await connect_websocket(tls_url)


async def test_a_plain_client_on_a_tls_port_is_refused(tls_url: str) -> None:
    with pytest.raises((ChannelClosed, IncompatiblePeer)):
        await connect_websocket(tls_url.replace("wss", "ws"))
