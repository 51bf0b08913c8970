"""The HTTP proxy through which confined workers reach the outside: CONNECT, and requests with an absolute http URL.

It admits the consented names, resolves them itself, and connects only to addresses that the rules of the host allow,
through the outgoing proxy of the host if there is one. Every connection leaves a record. It does not look into tunnels.
"""

import asyncio
import base64
import contextlib
import hmac
import json
import socket
from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec

from bollard.host.egress.client import EgressClient
from bollard.host.egress.connection_log import SERVER, ConnectionLog, Outcome, ProxyClient
from bollard.host.egress.connections import Connection, Connections, NotSent
from bollard.host.egress.network_consent import NetworkConsent
from bollard.host.egress.proxy_request import BadRequest, ProxyRequest, parse_request, parse_response
from bollard.host.egress.relay import Relay, RelayEnded, RelayLimits
from bollard.host.errors import EgressDenied
from bollard.host.limits import (
    EGRESS_CONNECT_S,
    WORKER_PROXY_BACKLOG,
    WORKER_PROXY_CLOSE_S,
    WORKER_PROXY_CONNECTIONS,
    WORKER_PROXY_CONNECTIONS_ALL,
    WORKER_PROXY_HEAD_BYTES,
    WORKER_PROXY_HEAD_S,
    WORKER_PROXY_HEADERS,
)

_ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
USER: Final = "worker"
"""The user in the URL of a proxy with a token."""


Refused = Callable[[str, int], None]
"""Called with the host and the port of each place that the consent does not admit."""


def forget(host: str, port: int) -> None:
    """Do nothing: the record of the connection says enough."""
    del host, port


class _Door(msgspec.Struct, frozen=True, eq=False):
    """What one listener serves."""

    client: ProxyClient
    consent: NetworkConsent
    token: str | None
    refused: Refused


class _Refused(Exception):
    """The response of the proxy instead of the destination's."""

    def __init__(self, status: int, outcome: Outcome, code: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.status = status
        self.outcome: Outcome = outcome
        self.code = code
        self.hint = hint


class WorkerProxy:
    """Serves the listening sockets of all workers. One per host."""

    def __init__(
        self,
        egress: EgressClient,
        log: ConnectionLog,
        *,
        limits: RelayLimits | None = None,
        head_s: float = WORKER_PROXY_HEAD_S,
        connect_s: float = EGRESS_CONNECT_S,
    ) -> None:
        self._egress = egress
        self._log = log
        self._limits = limits or RelayLimits()
        self._head_s = head_s
        self._connect_s = connect_s
        self._open: Counter[ProxyClient] = Counter()

    async def serve(
        self,
        listener: socket.socket,
        client: ProxyClient,
        consent: NetworkConsent,
        *,
        token: str | None = None,
        refused: Refused = forget,
    ) -> None:
        """Serve a listening socket, which may be in another network namespace, until this is cancelled. Closes it and
        its connections then. With `token`, each request needs it as the password of `worker`."""
        door = _Door(client, consent, token, refused)
        tasks: set[asyncio.Task[None]] = set()

        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._serve_one(reader, writer, door))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        listener.setblocking(False)
        start = asyncio.start_unix_server if listener.family == socket.AF_UNIX else asyncio.start_server
        server = await start(begin, sock=listener, limit=WORKER_PROXY_HEAD_BYTES, backlog=WORKER_PROXY_BACKLOG)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def flush(self) -> None:
        """Record all ended connections, because the host stops."""
        self._log.flush()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, door: _Door) -> None:
        client = door.client
        self._open[client] += 1
        self._log.counts.active += 1
        try:
            await self._answer(reader, writer, door)
        except OSError:
            pass  # the worker is gone; the destination's errors are handled where they occur
        finally:
            self._open[client] -= 1
            self._open += Counter[ProxyClient]()  # without those that have none
            self._log.counts.active -= 1
            await _close(writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, door: _Door) -> None:
        client = door.client
        host, port = "", 0
        try:
            self._check_count(client)
            request = await self._request(reader)
            host, port = request.place.host, request.place.port
            _check_token(request, door.token)
            _check_consent(request, client, door.consent)
            connection = await self._connect(request)
        except _Refused as refused:
            self._log.note(client, host, port, refused.outcome)
            if refused.outcome == "refused":
                door.refused(host, port)
            await _refuse(writer, refused)
            return
        relay = Relay(self._limits)
        outcome: Outcome = "cut"
        try:
            forward = self._tunnel if request.is_tunnel else self._forward
            outcome = await forward(request, connection, relay, reader, writer)
        finally:
            if outcome == "closed":
                await _close(connection.writer)
            connection.drop()
            self._log.note(client, host, port, outcome, sent=relay.sent, received=relay.received)

    # --- before the connection ---

    def _check_count(self, client: ProxyClient) -> None:
        if self._open[client] > WORKER_PROXY_CONNECTIONS or self._open.total() > WORKER_PROXY_CONNECTIONS_ALL:
            hint = "close connections that are not needed"
            raise _Refused(503, "too_many", "too_many_connections", "too many connections are open", hint)

    async def _request(self, reader: asyncio.StreamReader) -> ProxyRequest:
        try:
            async with asyncio.timeout(self._head_s):
                head = await reader.readuntil(b"\r\n\r\n")
            return parse_request(head, WORKER_PROXY_HEADERS)
        except TimeoutError:
            raise _invalid(408, f"the head did not arrive within {self._head_s:g} s") from None
        except asyncio.LimitOverrunError:
            raise _invalid(431, f"the head is larger than {WORKER_PROXY_HEAD_BYTES} bytes") from None
        except asyncio.IncompleteReadError as error:
            raise _invalid(400, "the connection ended in the head of a request") from error
        except BadRequest as error:
            raise _invalid(error.status, str(error)) from error

    async def _connect(self, request: ProxyRequest) -> Connection:
        place = request.place
        try:
            return await Connections(place, self._connect_s, self._egress.judge, keeps=False).connect()
        except EgressDenied as error:
            raise _Refused(403, "address", "egress_denied", error.message, error.hint or "") from error
        except NotSent as error:
            message = f"{place.host}:{place.port} cannot be reached: {error}"
            raise _Refused(502, "unreachable", "unreachable", message, "check the name and the port") from error

    # --- after it ---

    async def _tunnel(
        self,
        request: ProxyRequest,
        connection: Connection,
        relay: Relay,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> Outcome:
        del request
        writer.write(_ESTABLISHED)
        up = asyncio.ensure_future(relay.copy(reader, connection.writer, "sent"))
        down = asyncio.ensure_future(relay.copy(connection.reader, writer, "received"))
        return await relay.both(up, down, up_is_needed=True)

    async def _forward(
        self,
        request: ProxyRequest,
        connection: Connection,
        relay: Relay,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> Outcome:
        """One request and its response; then the connection ends, so that no second request can hide in the first."""
        connection.writer.write(request.forwarded_head())
        up = asyncio.ensure_future(relay.copy_body(reader, connection.writer, "sent", request.body))
        down = asyncio.ensure_future(_respond(request, connection, relay, writer))
        return await relay.both(up, down, up_is_needed=False)


async def _respond(request: ProxyRequest, connection: Connection, relay: Relay, writer: asyncio.StreamWriter) -> None:
    while True:
        try:
            head = await connection.reader.readuntil(b"\r\n\r\n")
            response = parse_response(head, WORKER_PROXY_HEADERS, request.method)
        except (OSError, EOFError, asyncio.LimitOverrunError, BadRequest) as error:
            message = f"{request.place.authority} gave no valid answer: {str(error) or type(error).__name__}"
            await _refuse(writer, _Refused(502, "cut", "no_answer", message, "retry later"))
            raise RelayEnded("cut") from error
        writer.write(response.forwarded())
        if response.status >= 200:
            break
    if response.body is None:
        await relay.copy(connection.reader, writer, "received")
    else:
        await relay.copy_body(connection.reader, writer, "received", response.body)


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close after the last bytes have left. A peer that does not read them is cut off."""
    writer.close()
    try:
        async with asyncio.timeout(WORKER_PROXY_CLOSE_S):
            await writer.wait_closed()
    except (OSError, TimeoutError, asyncio.CancelledError):
        writer.transport.abort()
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise


def _check_token(request: ProxyRequest, token: str | None) -> None:
    if token is None:
        return
    wanted = "Basic " + base64.b64encode(f"{USER}:{token}".encode()).decode()
    if not hmac.compare_digest((request.header("proxy-authorization") or "").encode(), wanted.encode()):
        hint = "use the URL in HTTPS_PROXY"
        raise _Refused(407, "invalid", "unauthenticated", "the proxy needs the token of this worker", hint)


def _check_consent(request: ProxyRequest, client: ProxyClient, consent: NetworkConsent) -> None:
    place = request.place
    if not consent.admits(place.host, place.port):
        name = f"{place.host}:{place.port}"
        if client.is_server:
            message = f"sandbox.network of the MCP server {client.plugin.removeprefix(SERVER)} does not admit {name}"
            hint = f"an operator can add {name} to sandbox.network of the saved server"
        else:
            message = f"spec.sandbox.network of {client.plugin} does not admit {name}"
            hint = f"add {name} to spec.sandbox.network of its manifest, and consent to the update"
        raise _Refused(403, "refused", "permission_missing", message, hint)


def _invalid(status: int, message: str) -> _Refused:
    return _Refused(status, "invalid", "invalid_request", message, "speak HTTP/1.1 to the proxy")


async def _refuse(writer: asyncio.StreamWriter, refused: _Refused) -> None:
    """Many clients show only the reason of a failed CONNECT, so it has the message."""
    message = str(refused)
    body = json.dumps({"code": refused.code, "message": message, "hint": refused.hint}).encode()
    reason = message.encode("ascii", "replace").decode()
    lines = [f"HTTP/1.1 {refused.status} {reason}", "content-type: application/json", f"content-length: {len(body)}"]
    if refused.status == 407:
        lines.append('proxy-authenticate: Basic realm="bollard"')
    writer.write("\r\n".join([*lines, "connection: close", "", ""]).encode() + body)
    with contextlib.suppress(OSError):
        await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
