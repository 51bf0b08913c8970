"""`/runtime/…`: the door for runtimes of other machines. No token opens it: a code does once, and then a key.

The signature travels in the head of the WebSocket's handshake, so that the socket carries the channel and nothing else.
"""

import asyncio
from typing import Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from bollard.host.errors import InvalidRequest, Unauthenticated
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.bodies import parsed
from bollard.host.http.errors import ForbiddenOrigin, UpgradeRequired
from bollard.host.http.guard import Rates
from bollard.host.http.openapi.schemas import TEXT, TIME, fields
from bollard.host.http.operations import Answer, HeaderField
from bollard.host.http.resources.declaration import DeclaredResource, answer, operation
from bollard.host.http.streams.socket_transport import SocketTransport
from bollard.host.runtimes.connections import Connection, Connections
from bollard.host.runtimes.enrolment import Challenges
from bollard.host.runtimes.repository import RuntimeRepository
from bollard.protocol import Digest, JsonObject, Strict
from bollard.wire.runtime_handshake import (
    CHALLENGE_PATH,
    CHANNEL_PATH,
    CHANNEL_SUBPROTOCOL,
    ENROLMENT_PATH,
    KEY_HEADER,
    NONCE_HEADER,
    SIGNATURE_HEADER,
)

_HINT: Final = "connect with `bollard runtime … --connect`, or as docs/reference/channel.md says"


class EnrolRuntime(Strict):
    """`POST /api/v1/runtime/enrolment`."""

    code: str = Field(min_length=1, max_length=128)
    public_key: Digest = Field(description="32 bytes of an Ed25519 key, as hex.")
    proof: str = Field(pattern=r"^[0-9a-f]{128}$", description="The key's signature over the code and itself, as hex.")


_EXAMPLE: Final[JsonObject] = {"nonce": "19c0…", "host_id": "0f1e2d3c4b5a6978", "expires_at": 1767225630.0}


class RuntimeEntrance(DeclaredResource):
    """Where runtimes knock."""

    tag = "runtimes"

    def __init__(
        self, *, repository: RuntimeRepository, challenges: Challenges, connections: Connections, strangers: Rates
    ) -> None:
        self._repository = repository
        self._challenges = challenges
        self._connections = connections
        self._strangers = strangers

    @operation(
        f"GET {CHALLENGE_PATH}",
        name="getRuntimeChallenge",
        summary="Something to sign, good once and for seconds.",
        open=True,
        answers={
            200: Answer(
                summary="The challenge.",
                schema=fields(nonce=TEXT, host_id=TEXT, expires_at=TIME),
                example=_EXAMPLE,
            )
        },
        errors=("rate_limited",),
    )
    async def challenge(self, request: Request) -> Response:
        self._slow_down(request)
        nonce, expires_ms = self._challenges.issue()
        return JsonAnswer({"nonce": nonce, "host_id": self._challenges.host_id, "expires_at": expires_ms / 1000})

    @operation(
        f"POST {ENROLMENT_PATH}",
        name="enrolRuntime",
        summary="Enrol a runtime with a one-time code and the public half of its key.",
        open=True,
        body=EnrolRuntime,
        body_example={"code": "blr_…", "public_key": "0" * 64, "proof": "0" * 128},
        answers={201: answer("Its key opens the door from here on.", name="gpu-box", host_id="0f1e2d3c4b5a6978")},
        errors=("unauthenticated", "conflict", "rate_limited"),
    )
    async def enrol(self, request: Request) -> Response:
        self._slow_down(request)
        body = parsed(EnrolRuntime, await read_body(request))
        saved = await self._repository.enrol(body.code, body.public_key, body.proof)
        return JsonAnswer({"name": saved.thing.name, "host_id": self._challenges.host_id}, status_code=201)

    async def connect(self, socket: WebSocket) -> None:
        if "origin" in socket.headers:
            raise ForbiddenOrigin("browsers cannot connect here", reason="runtime_browser", hint=_HINT)
        if CHANNEL_SUBPROTOCOL not in socket.scope["subprotocols"]:
            raise InvalidRequest(
                f"the handshake does not offer {CHANNEL_SUBPROTOCOL}",
                reason="runtime_subprotocol",
                hint=_HINT,
                field="sec-websocket-protocol",
                subprotocol=CHANNEL_SUBPROTOCOL,
            )
        said = [socket.headers.getlist(name) for name in (KEY_HEADER, NONCE_HEADER, SIGNATURE_HEADER)]
        if any(len(values) != 1 for values in said):
            raise self._strangers.take(_address(socket)) or Unauthenticated(
                "this needs a signed challenge", reason="runtime_challenge", hint=_HINT
            )
        try:
            async with self._connections.admitted(*(values[0] for values in said)) as connection:
                await self._carry(socket, connection)
        except Unauthenticated as error:
            raise self._strangers.take(_address(socket)) or error from error

    @operation(
        f"GET {CHANNEL_PATH}",
        socket=connect,
        name="openRuntimeChannel",
        summary="The channel of an enrolled runtime, as a WebSocket; its head holds a signed challenge.",
        open=True,
        headers=(
            HeaderField(name=KEY_HEADER, summary="The public key, as hex.", example="0" * 64),
            HeaderField(name=NONCE_HEADER, summary="The challenge.", example="19c0"),
            HeaderField(name=SIGNATURE_HEADER, summary="The key's signature over it.", example="0" * 128),
        ),
        answers={101: Answer(summary="Frames of the channel, one in each text message.")},
        errors=("unauthenticated", "forbidden_origin", "conflict", "rate_limited", "upgrade_required"),
    )
    async def upgrade(self, request: Request) -> Response:
        """A plain request."""
        del request
        raise UpgradeRequired("this path needs a WebSocket", reason="runtime_websocket", hint=_HINT)

    async def _carry(self, socket: WebSocket, connection: Connection) -> None:
        await socket.accept(subprotocol=CHANNEL_SUBPROTOCOL)
        transport = SocketTransport(socket)
        carrying = asyncio.create_task(transport.run())
        try:
            await self._connections.serve(connection, transport)
        finally:
            transport.close("the connection is over")
            await carrying

    def _slow_down(self, request: Request) -> None:
        """What everybody may ask, nobody may ask without end."""
        refused = self._strangers.take(_address(request))
        if refused is not None:
            raise refused


def _address(connection: Request | WebSocket) -> str:
    return "" if connection.client is None else connection.client.host
