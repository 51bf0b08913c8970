"""Frames as WebSocket text messages, for the client and the server of remote runtimes.

A codec over the protocol state machine of the `websockets` library, so that the stream transport with its batching and
back-pressure serves both kinds of connection. Needs the extra `bollard[remote]`.
"""

import asyncio
import ssl
from collections.abc import Sequence
from typing import Final

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus, InvalidURI
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN, State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from bollard.protocol import limits
from bollard.wire import runtime_handshake
from bollard.wire.errors import ChannelClosed, FrameError, HandshakeRefused, IncompatiblePeer
from bollard.wire.limits import WEBSOCKET_HANDSHAKE_S
from bollard.wire.stream import StreamTransport

CHANNEL_SUBPROTOCOL: Final = Subprotocol(runtime_handshake.CHANNEL_SUBPROTOCOL)


class WebSocketCodec:
    """The `Codec` of both sides. `opened` resolves after the handshake."""

    def __init__(self, protocol: ClientProtocol | ServerProtocol) -> None:
        self._protocol = protocol
        self._message = bytearray()  # collects fragments; grows by content only, so empty fragments cost nothing
        self._skipping = False
        self._finished: str | None = None
        self.opened: asyncio.Future[Request | None] = asyncio.get_running_loop().create_future()

    @property
    def finished(self) -> str | None:
        return self._finished

    @property
    def subprotocol(self) -> str | None:
        return self._protocol.subprotocol

    def hello(self, headers: Sequence[tuple[str, str]]) -> bytes:
        """Return the opening request of a client."""
        if isinstance(self._protocol, ClientProtocol):
            request = self._protocol.connect()
            for name, value in headers:
                request.headers[name] = value
            self._protocol.send_request(request)
        return self._take_outgoing()

    def encode(self, frames: Sequence[bytes]) -> bytes:
        if self._protocol.state is not OPEN:
            return b""
        for frame in frames:
            self._protocol.send_text(frame)
        return self._take_outgoing()

    def decode(self, data: bytes) -> tuple[list[bytes | FrameError], bytes]:
        self._protocol.receive_data(data)
        frames: list[bytes | FrameError] = []
        for event in self._protocol.events_received():
            if isinstance(event, Frame):
                self._take(event, frames)
            elif isinstance(event, Request) and isinstance(self._protocol, ServerProtocol):
                self._protocol.send_response(self._protocol.accept(event))
                self._open(event)
            else:
                self._open(None)
        if self._protocol.state in (State.CLOSING, State.CLOSED):
            self._finished = self._explain_close()
        if self._protocol.handshake_exc is not None and not self.opened.done():
            self.opened.set_exception(_handshake_error(self._protocol.handshake_exc))
        return frames, self._take_outgoing()

    def end(self) -> FrameError | None:
        if not self.opened.done():
            self.opened.set_exception(ChannelClosed("the connection ended during the handshake"))
        return FrameError("half_frame", "the stream ended inside a message") if self._message else None

    def farewell(self, reason: str) -> bytes:
        if self._protocol.state is OPEN:
            self._protocol.send_close(CloseCode.NORMAL_CLOSURE, reason.encode()[:100].decode(errors="ignore"))
        return self._take_outgoing()

    def _open(self, request: Request | None) -> None:
        if self._protocol.state is OPEN and not self.opened.done():
            self.opened.set_result(request)

    def _take(self, frame: Frame, frames: list[bytes | FrameError]) -> None:
        if frame.opcode is Opcode.BINARY:
            frames.append(FrameError("binary", "the connection carries text messages only"))
            self._skipping = not frame.fin
        elif frame.opcode is Opcode.CONT and self._skipping:
            self._skipping = not frame.fin
        elif frame.opcode in (Opcode.TEXT, Opcode.CONT):
            if frame.fin and not self._message:
                frames.append(bytes(frame.data))
                return
            self._message += frame.data
            if frame.fin:
                frames.append(bytes(self._message))
                self._message.clear()

    def _explain_close(self) -> str:
        received = self._protocol.close_rcvd
        sent = self._protocol.close_sent
        if sent is not None and sent.code == CloseCode.MESSAGE_TOO_BIG:
            return "a message was larger than a frame may be"
        close = received or sent
        return f"the peer closed: {close.reason or close.code}" if close else "the peer closed the connection"

    def _take_outgoing(self) -> bytes:
        return b"".join(self._protocol.data_to_send())


def _handshake_error(error: Exception) -> IncompatiblePeer:
    if isinstance(error, InvalidStatus):
        return HandshakeRefused.read(error.response.status_code, bytes(error.response.body or b""), "the connection")
    return IncompatiblePeer(
        f"the WebSocket handshake failed: {error}", "check the address and that a Bollard host answers there"
    )


async def connect_websocket(
    url: str, *, tls: ssl.SSLContext | None = None, headers: Sequence[tuple[str, str]] = ()
) -> StreamTransport:
    """Connect to a host. `wss` verifies certificates with the system's trust store unless `tls` is given."""
    try:
        uri = parse_uri(url)
    except (InvalidURI, ValueError) as error:
        raise IncompatiblePeer(f"{url!r} is not a WebSocket address", "use ws://host:port/path or wss://…") from error
    codec = WebSocketCodec(
        ClientProtocol(uri, subprotocols=[CHANNEL_SUBPROTOCOL], max_size=limits.FRAME_BYTES, extensions=None)
    )
    context = (tls or ssl.create_default_context()) if uri.secure else None
    try:
        stream, transport = await asyncio.get_running_loop().create_connection(
            lambda: StreamTransport(codec),
            uri.host,
            uri.port,
            ssl=context,
            server_hostname=uri.host if context else None,
        )
    except OSError as error:
        raise ChannelClosed(f"{uri.host}:{uri.port} cannot be reached: {error.strerror or error}") from error
    stream.write(codec.hello(headers))
    await wait_for_handshake(transport, codec)
    if codec.subprotocol != CHANNEL_SUBPROTOCOL:
        transport.close("the peer does not speak this protocol")
        raise IncompatiblePeer(
            f"the peer does not speak {CHANNEL_SUBPROTOCOL}", "check the address and that a Bollard host answers there"
        )
    return transport


async def wait_for_handshake(transport: StreamTransport, codec: WebSocketCodec) -> Request | None:
    """Wait until the connection is open. Returns the request of the client, on the server's side."""
    transport.resume_reading()
    try:
        async with asyncio.timeout(WEBSOCKET_HANDSHAKE_S):
            request = await codec.opened
    except TimeoutError as error:
        transport.close("the handshake took too long")
        raise IncompatiblePeer("the WebSocket handshake took too long", "check the address") from error
    except BaseException:
        transport.close("the handshake failed")
        raise
    transport.pause_reading()
    return request
