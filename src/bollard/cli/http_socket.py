"""A WebSocket on a connection that began with HTTP: uvicorn speaks it, the door counts it and cuts
readers that are stuck."""

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from bollard.cli.http_door import Door
from bollard.host.limits import SOCKET_CLOSE_S

__all__ = ["SocketProtocol"]


class SocketProtocol(WebSocketsSansIOProtocol):
    """Takes the place of its connection at the door."""

    def __init__(self, door: Door, address: str | None) -> None:
        super().__init__(config=door.config, server_state=door.state, app_state={}, _loop=door.loop)
        self._door = door
        self.address = address
        self.close_timeout = SOCKET_CLOSE_S

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._door.leave(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._door.readers.begin(self, self._door.now())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._door.readers.end(self)

    def head_is_late(self) -> None:
        """Its head was there."""

    def body_is_due(self) -> None:
        """It has no body."""

    def close(self) -> None:
        self.transport.close()

    def cut(self) -> None:
        self.transport.abort()
