"""`/runtimes` and `/runtime/…`: operators manage runtimes of other machines; a runtime connects with its key."""

import asyncio
from typing import Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket

from bollard.host.agents.names import ChosenName
from bollard.host.clock import Clock
from bollard.host.errors import InvalidRequest, Unauthenticated
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.errors import ForbiddenOrigin, UpgradeRequired
from bollard.host.http.guard import Rates
from bollard.host.http.openapi.schemas import NUMBER, TEXT, TIME, array_of, choice, fields, maybe
from bollard.host.http.operations import PAGE, Answer, HeaderField, Resource
from bollard.host.http.queries import Pages
from bollard.host.http.rates import stranger_rates
from bollard.host.http.resources.declaration import DeclaredResource, answer, answer_body, operation
from bollard.host.http.resources.plugin_shapes import ASKS
from bollard.host.http.resources.saved_routes import REVISION
from bollard.host.http.revisions import edited_revision, held_to_match, revised, tag_of
from bollard.host.http.streams.socket_transport import SocketTransport
from bollard.host.log.saved_resources import Saved
from bollard.host.runtimes.connections import Connection, Connections, RemoteRuntimes
from bollard.host.runtimes.enrolment import VERSION_CHARACTERS, Challenges, Enrolled, PluginName
from bollard.host.runtimes.repository import RuntimeRepository
from bollard.protocol import Digest, Flag, Int, JsonObject, Strict
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
    """Enrols and connects runtimes."""

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
        summary="Get a challenge to sign. It is valid once, for seconds.",
        open=True,
        answers={
            200: Answer(
                summary="The challenge.", schema=fields(nonce=TEXT, host_id=TEXT, expires_at=TIME), example=_EXAMPLE
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
        answers={201: answer("The runtime is enrolled.", name="gpu-box", host_id="0f1e2d3c4b5a6978")},
        errors=("unauthenticated", "conflict", "rate_limited"),
    )
    async def enrol(self, request: Request) -> Response:
        self._slow_down(request)
        body = parsed(EnrolRuntime, await read_body(request))
        saved = await self._repository.enrol(body.code, body.public_key, body.proof)
        return JsonAnswer({"name": saved.value.name, "host_id": self._challenges.host_id}, status_code=201)

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
        headers = [socket.headers.getlist(name) for name in (KEY_HEADER, NONCE_HEADER, SIGNATURE_HEADER)]
        if any(len(values) != 1 for values in headers):
            raise self._strangers.take(_address(socket)) or Unauthenticated(
                "this needs a signed challenge", reason="runtime_challenge", hint=_HINT
            )
        try:
            async with self._connections.admitted(*(values[0] for values in headers)) as connection:
                await self._carry(socket, connection)
        except Unauthenticated as error:
            raise self._strangers.take(_address(socket)) or error from error

    @operation(
        f"GET {CHANNEL_PATH}",
        socket=connect,
        name="openRuntimeChannel",
        summary="Open the worker connection of an enrolled runtime: a WebSocket with a signed challenge.",
        open=True,
        headers=(
            HeaderField(name=KEY_HEADER, summary="The public key, as hex.", example="0" * 64),
            HeaderField(name=NONCE_HEADER, summary="The challenge.", example="19c0"),
            HeaderField(name=SIGNATURE_HEADER, summary="The key's signature over it.", example="0" * 128),
        ),
        answers={101: Answer(summary="Frames of the worker connection, one in each text message.")},
        errors=("unauthenticated", "forbidden_origin", "conflict", "rate_limited", "upgrade_required"),
    )
    async def upgrade(self, request: Request) -> Response:
        """Refuse a request that is no WebSocket."""
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
        """Limit requests without a token by their address."""
        refused = self._strangers.take(_address(request))
        if refused is not None:
            raise refused


def _address(connection: Request | WebSocket) -> str:
    return "" if connection.client is None else connection.client.host


_RUNTIME: Final = "/api/v1/runtimes/{runtime_id}"
_PLUGIN: Final = fields(plugin_id=TEXT, version=TEXT, digest=maybe(TEXT))
_CONSENTED: Final = fields(plugin_id=TEXT, version=TEXT, digest=TEXT, asks=ASKS, by=TEXT, at=TIME)
_PRESENCE: Final = fields(
    connected_at=TIME,
    last_seen_at=TIME,
    ping_ms=maybe({"type": "number"}),
    runs=NUMBER,
    worker=maybe(fields(name=TEXT, version=TEXT, language=TEXT)),
    plugin=maybe(_PLUGIN),
    asks=maybe(ASKS),
    change=maybe(fields(added=array_of(TEXT), removed=array_of(TEXT))),
    consent=maybe(TEXT),
)
RUNTIME: Final = answer_body(
    "Runtime",
    {
        "runtime_id": "gpu-box",
        "status": "away",
        "problem": None,
        "enabled": True,
        "public_key": "9f2c1e" + "0" * 58,
        "only_plugin": None,
        "enrolled_by": "admin-token",
        "enrolled_at": 1767225600.0,
        "consented": None,
        "presence": None,
        "revision": 1,
    },
    status=choice("ready", "waiting", "away", "disabled"),
    problem=maybe(TEXT),
    only_plugin=maybe(TEXT),
    consented=maybe(_CONSENTED),
    presence=maybe(_PRESENCE),
)


class InviteRuntime(Strict):
    """`POST /api/v1/runtimes`."""

    name: ChosenName
    plugin: PluginName | None = Field(default=None, description="The only plugin that the runtime may offer.")


class ChangeRuntime(Strict):
    """The settings of a runtime."""

    enabled: Flag
    revision: Int | None = Field(default=None, ge=0)


class ConsentRuntime(Strict):
    """`POST …/consent`."""

    consent: str | None = Field(default=None, max_length=64, description="`details.consent` of the refusal.")


_WHOLE: Final = RUNTIME.answer("The runtime as it is now.")


class Runtimes(DeclaredResource):
    """The runtimes of a workspace."""

    tag = "runtimes"

    def __init__(self, *, repository: RuntimeRepository, connections: Connections, pages: Pages) -> None:
        self._repository = repository
        self._connections = connections
        self._pages = pages

    @operation(
        "GET /api/v1/runtimes",
        name="listRuntimes",
        summary="List the enrolled runtimes of the workspace, and whether they are connected.",
        right="plugins.read",
        query=PAGE,
        answers={200: RUNTIME.page("runtimes")},
    )
    async def list(self, request: Request) -> Response:
        found = self._repository.all(caller_of(request).workspace)
        return self._pages.of_all(request, "runtimes.list", found, lambda saved: saved.id, self._shown)

    @operation(
        f"GET {_RUNTIME}",
        name="getRuntime",
        summary="Show one runtime: its connection, its plugin, and the permissions of the plugin.",
        right="plugins.read",
        editable=True,
        answers={200: _WHOLE},
        errors=("not_found",),
    )
    async def get(self, request: Request) -> Response:
        saved = self._repository.get(caller_of(request).workspace, request.path_params["runtime_id"])
        # The presence of a runtime changes without a new revision, so no reader gets a 304.
        return JsonAnswer(self._shown(saved), headers={"etag": tag_of(saved.revision)})

    @operation(
        "POST /api/v1/runtimes",
        name="inviteRuntime",
        summary="Make a one-time code that enrols a runtime of this name. It is shown once.",
        right="plugins.write",
        body=InviteRuntime,
        body_example={"name": "gpu-box"},
        answers={201: answer("The code.", runtime_id="gpu-box", code="blr_…", expires_at=1767226500.0)},
        errors=("conflict", "rate_limited"),
    )
    async def invite(self, request: Request) -> Response:
        caller = caller_of(request)
        body = parsed(InviteRuntime, await read_body(request))
        code, made = await self._repository.invite(caller.workspace, body.name, body.plugin, caller.name)
        shown: JsonObject = {"runtime_id": made.name, "code": code, "expires_at": made.expires_ms / 1000}
        return JsonAnswer(shown, status_code=201)

    @operation(
        f"PATCH {_RUNTIME}",
        name="changeRuntime",
        summary="Enable or disable a runtime. Disabling ends its connection and its runs.",
        right="plugins.write",
        body=ChangeRuntime,
        body_example={"enabled": False},
        editable=True,
        answers={200: _WHOLE},
        errors=("not_found", "conflict", "precondition_failed"),
    )
    async def change(self, request: Request) -> Response:
        caller, name = caller_of(request), request.path_params["runtime_id"]
        raw = await read_body(request)
        body = parsed(ChangeRuntime, raw)
        edited = edited_revision(request, self._repository.get(caller.workspace, name).revision, raw)
        with held_to_match(request):
            saved = await self._repository.switch(
                caller.workspace,
                name,
                caller.name,
                enabled=body.enabled,
                revision=body.revision if edited is None else edited,
            )
        return revised(request, self._shown(saved), saved.revision)

    @operation(
        f"POST {_RUNTIME}/consent",
        name="consentRuntime",
        summary="Consent to the plugin of the connected runtime: to its code and its permissions.",
        right="plugins.write",
        body=ConsentRuntime,
        body_example={},
        answers={200: _WHOLE},
        errors=("not_found", "conflict", "consent_needed"),
    )
    async def consent(self, request: Request) -> Response:
        caller, name = caller_of(request), request.path_params["runtime_id"]
        body = parsed(ConsentRuntime, await read_body(request))
        saved = await self._connections.consent(caller.workspace, name, body.consent, caller.name)
        return revised(request, self._shown(saved), saved.revision)

    @operation(
        f"DELETE {_RUNTIME}",
        name="revokeRuntime",
        summary="Delete a runtime and its key. Its connection and its runs end at once.",
        right="plugins.write",
        query=(REVISION,),
        editable=True,
        answers={200: answer("The runtime is deleted.", runtime_id="gpu-box", deleted=True)},
        errors=("not_found", "conflict", "precondition_failed"),
    )
    async def revoke(self, request: Request) -> Response:
        caller, name = caller_of(request), request.path_params["runtime_id"]
        revision = edited_revision(request, self._repository.get(caller.workspace, name).revision)
        with held_to_match(request):
            await self._repository.revoke(caller.workspace, name, caller.name, revision)
        return JsonAnswer({"runtime_id": name, "deleted": True})

    def _shown(self, saved: Saved[Enrolled]) -> JsonObject:
        runtime, connection = saved.value, self._connections.find(saved)
        status = "away" if connection is None else "waiting" if connection.pool is None else "ready"
        consented = runtime.consented
        return RUNTIME.of(
            runtime,
            runtime_id=runtime.name,
            status=status if runtime.enabled else "disabled",
            problem=None if connection is None else connection.problem,
            only_plugin=runtime.plugin,
            consented=None
            if consented is None
            else {
                "plugin_id": consented.plugin,
                "version": consented.version,
                "digest": consented.digest,
                "asks": consented.asks,
                "by": consented.by,
                "at": consented.at_ms / 1000,
            },
            presence=None if connection is None else self._presence(connection),
            revision=saved.revision,
        )

    def _presence(self, connection: Connection) -> JsonObject:
        slot, introduced = connection.slot, connection.introduced
        shown: JsonObject = {
            "connected_at": slot.connected_ms / 1000,
            "last_seen_at": slot.heard_ms / 1000,
            "ping_ms": None if slot.ping_s is None else round(slot.ping_s * 1000, 1),
            "runs": slot.runs,
            **dict.fromkeys(("worker", "plugin", "asks", "change", "consent")),
        }
        if introduced is None:
            return shown
        worker, described = introduced.result.worker, introduced.described
        change = self._connections.change_of(connection)
        known: JsonObject = {
            "worker": {name: value[:VERSION_CHARACTERS] for name, value in worker.model_dump().items()},
            "plugin": {"plugin_id": described.plugin_id, "version": described.version, "digest": introduced.digest},
            "asks": described.access.to_wire(),
            "change": None if change is None else change.to_wire(),
            "consent": introduced.consent,
        }
        return shown | known


RUNTIME_RESOURCES: Final[tuple[type[Resource], ...]] = (Runtimes, RuntimeEntrance)


def runtime_resources(remote: RemoteRuntimes, cursor_secret: bytes, clock: Clock) -> tuple[Resource, ...]:
    """The resources of the API for runtimes on other machines."""
    return (
        Runtimes(repository=remote.repository, connections=remote.connections, pages=Pages(cursor_secret)),
        RuntimeEntrance(
            repository=remote.repository,
            challenges=remote.challenges,
            connections=remote.connections,
            strangers=stranger_rates(clock),
        ),
    )
