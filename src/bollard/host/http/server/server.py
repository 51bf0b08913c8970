"""The HTTP server: uvicorn's life cycle with our own connection protocol, time-outs and TLS settings."""

import asyncio
import contextlib
import logging
import resource
import socket
import ssl
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

import structlog
import uvicorn
from starlette.types import ASGIApp

from bollard.host.errors import SettingsError, caused_by
from bollard.host.http.edge import TrustedProxies
from bollard.host.http.server.connection_table import ConnectionTable, ConnectionTimeouts
from bollard.host.http.server.protocol import HttpProtocol
from bollard.host.limits import SOCKET_MESSAGE_BYTES, SOCKET_PING_S, UNSENT_BYTES
from bollard.host.runs.hub import ReaderMemory
from bollard.host.settings import Settings

_log = structlog.get_logger("bollard.host.http")
_BACKLOG: Final = 4096
"""Connections that may wait to be accepted."""
_SPARE_FILES: Final = 1024
"""File descriptors reserved for everything but connections."""
_SWEEP_TICKS: Final = 5
_SECOND_TICKS: Final = 10
"""In ticks of uvicorn's loop, a tenth of a second each."""


class HttpServer(uvicorn.Server):
    """Serves one app on sockets that are bound already. Does not handle signals."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        *,
        stop_s: float,
        tls: ssl.SSLContext | None = None,
        timeouts: ConnectionTimeouts | None = None,
        memory: ReaderMemory | None = None,
    ) -> None:
        config = uvicorn.Config(
            app,
            interface="asgi3",
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="websockets-sansio",
            ws_max_size=SOCKET_MESSAGE_BYTES,
            ws_ping_interval=SOCKET_PING_S,
            ws_ping_timeout=SOCKET_PING_S,
            ws_per_message_deflate=False,  # a small message must not become a large one
            timeout_graceful_shutdown=round(stop_s),
            server_header=False,
            proxy_headers=False,
        )
        super().__init__(config)
        logging.getLogger("uvicorn.error").addFilter(_is_relevant)
        self._app = app
        self._settings = settings
        self._tls = tls
        self._timeouts = timeouts or ConnectionTimeouts()
        self._memory = memory
        self.table: ConnectionTable | None = None
        """Set when the server has started."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.table = table = ConnectionTable(
            self._app,
            self.config,
            self.server_state,
            connections=connection_limit(self._settings.connections),
            per_address=self._settings.connections_per_address,
            proxies=TrustedProxies(self._settings.trusted_proxies),
            timeouts=self._timeouts,
            tls=self._tls is not None,
            memory=self._memory,
        )
        for listener in sockets or ():
            _limit_kernel_buffer(listener)
        self.servers = [
            await loop.create_server(
                lambda: HttpProtocol(table),
                sock=listener,
                ssl=self._tls,
                backlog=_BACKLOG,
                # A TLS handshake has the time-out of a head.
                ssl_handshake_timeout=self._timeouts.head_s if self._tls is not None else None,
            )
            for listener in sockets or ()
        ]
        self.started = True

    async def on_tick(self, counter: int) -> bool:
        if self.table is not None:
            if counter % _SWEEP_TICKS == 0:
                self.table.sweep()
            if counter % _SECOND_TICKS == 0:
                self.table.tick(time.time())
        return await super().on_tick(counter)


def _limit_kernel_buffer(listener: socket.socket) -> None:
    """Keep unsent data in the process, where it is counted, instead of megabytes per connection in the kernel."""
    if hasattr(socket, "TCP_NOTSENT_LOWAT") and listener.family != socket.AF_UNIX:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)


def _is_relevant(record: logging.LogRecord) -> bool:
    """Drops uvicorn's error about a refused WebSocket handshake: any client can cause it."""
    return record.msg != "ASGI callable returned without completing handshake."


def tls_of(settings: Settings) -> ssl.SSLContext | None:
    """The TLS context of the settings; raises `SettingsError`."""
    if not settings.tls_cert:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.set_alpn_protocols(["http/1.1"])
    for field, path in (("tls_cert", settings.tls_cert), ("tls_key", settings.tls_key)):
        if not Path(path).is_file():
            raise SettingsError(
                f"{field}: there is no file {path!r}",
                reason="tls_file_missing",
                hint="name a PEM file",
                field=field,
                path=path,
            )
    try:
        # An encrypted key would otherwise prompt on the terminal.
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password=lambda: "")
    except (OSError, ssl.SSLError, ValueError) as error:
        raise SettingsError(
            f"the certificate and its key are unusable: {error}",
            reason="tls_unusable",
            hint="tls_cert and tls_key must be matching PEM files, and the key must have no password",
            field="tls_cert",
            **caused_by(error),
        ) from error
    return context


def connection_limit(wanted: int) -> int:
    """The number of connections that the limit of open files allows, at most `wanted`. Raises that limit to the hard
    limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    if soft == resource.RLIM_INFINITY:
        return wanted
    possible = max(soft - _SPARE_FILES, soft // 2)
    if possible < wanted:
        _log.warning("the limit of open files is too low for all connections", connections=possible, wanted=wanted)
    return min(wanted, possible)
