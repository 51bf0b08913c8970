"""A WebSocket client for plugins. It follows `HTTP_PROXY` and `HTTPS_PROXY`, by which a confined worker reaches the
names that its manifest asks for (`spec.sandbox.network`). Needs `bollard[net]`.

    async with connect("wss://chat.example.org/gateway") as socket:
        await socket.send('{"op": "identify"}')
        async for message in socket:
            print(message)

It answers pings, and sends its own to notice a dead connection. It does not reconnect: the caller decides when.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_websocket
from websockets.exceptions import ConnectionClosed, InvalidProxyStatus, InvalidStatus, InvalidURI, WebSocketException
from websockets.typing import Subprotocol

from bollard.protocol.limits import MIB
from bollard.sdk.network_errors import (
    PERMISSION,
    BadStatus,
    NetworkError,
    NotConnected,
    PermissionMissing,
    SocketClosed,
    not_connected,
)

__all__ = ["SocketClosed", "WebSocket", "connect"]

MESSAGE_BYTES: Final = 1 * MIB
"""The default limit of a message."""
OPEN_S: Final = 10.0
"""The default limit to connect."""
PING_S: Final = 20.0
"""The default time between two pings, and to answer one."""
_NORMAL: Final = 1000
_BROKEN: Final = 1006


class WebSocket:
    """An open WebSocket. Iterating over it yields messages until the other side closes it in good order."""

    def __init__(self, place: str, connection: ClientConnection) -> None:
        self.place = place
        """The URL without its query."""
        self._connection = connection

    @property
    def subprotocol(self) -> str | None:
        """The subprotocol that the server chose."""
        return self._connection.subprotocol

    async def send(self, message: str | bytes) -> None:
        """Send a message, text or bytes. Waits while the other side reads nothing. Raises `SocketClosed`."""
        try:
            await self._connection.send(message)
        except ConnectionClosed as error:
            raise self._closed(error) from error

    async def receive(self) -> str | bytes:
        """The next message. Cancelling loses none. Raises `SocketClosed`."""
        try:
            return await self._connection.recv()
        except ConnectionClosed as error:
            raise self._closed(error) from error

    async def ping(self) -> float:
        """Send a ping; the seconds until its answer. Raises `SocketClosed`."""
        try:
            return await (await self._connection.ping())
        except ConnectionClosed as error:
            raise self._closed(error) from error

    async def close(self, code: int = _NORMAL, reason: str = "") -> None:
        """Close the connection. Idempotent."""
        await self._connection.close(code, reason)

    async def __aiter__(self) -> AsyncIterator[str | bytes]:
        while True:
            try:
                yield await self.receive()
            except SocketClosed as closed:
                if closed.code in (_NORMAL, 1001):
                    return
                raise

    def _closed(self, error: ConnectionClosed) -> SocketClosed:
        frame = error.rcvd or error.sent
        return SocketClosed(self.place, _BROKEN if frame is None else frame.code, "" if frame is None else frame.reason)


@asynccontextmanager
async def connect(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    subprotocols: Sequence[str] = (),
    max_bytes: int = MESSAGE_BYTES,
    open_s: float = OPEN_S,
    ping_s: float | None = PING_S,
) -> AsyncGenerator[WebSocket]:
    """Connect to a `ws` or `wss` URL. A larger message than `max_bytes` closes the connection with code 1009, and a
    connection that does not answer a ping within `ping_s` with 1011. The defaults are 1 MiB and 20 s, and 10 s to
    connect. Raises `NetworkError`."""
    place = url.partition("?")[0]
    try:
        connection = await open_websocket(
            url,
            additional_headers=dict(headers or {}),
            subprotocols=[Subprotocol(each) for each in subprotocols] or None,
            max_size=max_bytes,
            open_timeout=open_s,
            ping_interval=ping_s,
            ping_timeout=ping_s,
        )
    except (WebSocketException, OSError, EOFError, ValueError) as error:
        raise _failure(place, error) from error
    try:
        yield WebSocket(place, connection)
    finally:
        await connection.close()


def _failure(place: str, error: Exception) -> NetworkError:
    if isinstance(error, InvalidProxyStatus) and error.response.reason_phrase.startswith(PERMISSION):
        return PermissionMissing(place, error.response.reason_phrase)
    if isinstance(error, InvalidStatus):
        return BadStatus(place, error.response.status_code, bytes(error.response.body or b"")[:2048])
    if isinstance(error, InvalidURI):
        return NotConnected(place, "the URL is not valid")
    return not_connected(place, f"no connection: {str(error) or type(error).__name__}")
