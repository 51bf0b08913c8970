"""`/runs/{id}/socket`: a run as a WebSocket. Each record of the stream is a text frame `{id, event, data}`. The client
may send `cancel`, `steer` and `ping`, and gets `done`, `refused` or `pong`."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Final, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from bollard.host.errors import Forbidden, HostError, InvalidRequest, Unauthenticated
from bollard.host.http.answers import BODY_BYTES, error_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.auth.presence import REVOKED, REVOKED_CLOSE, AccessRevoked, Presence
from bollard.host.http.bodies import Id, SteerRun, parsed
from bollard.host.http.errors import UpgradeRequired
from bollard.host.http.guard import Rates
from bollard.host.http.operations import Answer, Operation
from bollard.host.http.resources.run_control import Control
from bollard.host.http.resources.run_rows import RunRows, accepted_body
from bollard.host.http.resources.runs import AFTER
from bollard.host.runs.hub import StreamRecord
from bollard.host.runs.stream import RunReader, parse_place
from bollard.protocol import JsonObject, Strict
from bollard.wire import FrameError, decode, encode

_DONE: Final = 1000
_BEHIND: Final = 1013
"""Close codes: the run has ended; the reader fell behind and may resume."""
_MESSAGE: Final = frozenset({"input", "actor", "id"})


class ClientFrame(Strict):
    """A frame from the client. The response repeats its `ref`."""

    type: Literal["cancel", "steer", "ping"]
    ref: Annotated[str, Field(max_length=64)] | None = None
    input: JsonObject | None = None
    actor: JsonObject | None = None
    id: Id | None = None


def text_frame(record: StreamRecord) -> str:
    """One record as a frame. A gap has no id, so that a client that resumes does not skip it."""
    place = b"" if record.type == "gap" else b'"id":"%d.%d",' % (record.epoch, record.seq)
    return (b'{%b"event":%b,"data":%b}' % (place, encode(record.type), record.json)).decode()


class RunSocket:
    """Runs over WebSockets."""

    def __init__(self, *, reader: RunReader, rows: RunRows, control: Control, rates: Rates, presence: Presence) -> None:
        self._reader = reader
        self._rows = rows
        self._control = control
        self._rates = rates
        self._presence = presence

    @staticmethod
    def operations() -> list[Operation]:
        return [
            Operation(
                method="GET",
                path="/api/v1/runs/{run_id}/socket",
                handler=RunSocket.upgrade,
                socket=RunSocket.open,
                name="openRunSocket",
                tag="runs",
                summary="A run as a WebSocket, from its beginning or after `after`; the reader may cancel and steer.",
                description='Each record is a text frame. The reader may send `{"type": "ping" | "cancel" | '
                '"steer"}`. Closed with 1000 after `run.ended`, and with 1013 if the reader fell '
                "behind and may resume. A plain request is refused with 426.",
                right="runs.read",
                ticket=True,
                query=(AFTER,),
                answers={101: Answer(summary="Frames `{id, event, data}`, as in the run's stream.")},
                errors=("not_found", "upgrade_required"),
            )
        ]

    async def upgrade(self, request: Request) -> Response:
        """Refuse a plain HTTP request."""
        del request
        raise UpgradeRequired(
            "this path is a WebSocket",
            reason="websocket",
            hint="connect with ws:// or wss://, or read the run's …/stream",
        )

    async def open(self, socket: WebSocket) -> None:
        last = socket.query_params.get("after")
        after = parse_place(last) if last else None
        row = await self._rows.of(socket)
        await socket.accept()
        batches = self._rows.watched(socket, row, self._reader.read(row.run_id, after))
        tasks = [asyncio.create_task(_send_records(socket, batches)), asyncio.create_task(self._listen(socket))]
        reader = _Reader()
        self._presence.enter(reader, caller_of(socket))
        try:
            await asyncio.wait([*tasks, reader.gone], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._presence.leave(reader)
            reader.gone.cancel()
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            await batches.aclose()
        for end in ends:
            if isinstance(end, Exception) and not isinstance(end, WebSocketDisconnect | AccessRevoked):
                raise end
        if reader.ended or any(isinstance(end, AccessRevoked) for end in ends):
            await socket.close(REVOKED_CLOSE, REVOKED)

    async def _listen(self, socket: WebSocket) -> None:
        """Handle frames one after the other, so that a client waits for its responses."""
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            ref: str | None = None
            try:
                frame = _frame(message.get("text"))
                ref = frame.ref
                event, data = await self._handle(socket, frame)
            except HostError as error:
                event, data = "refused", error_body(error)
            response: JsonObject = {"event": event, "data": data}
            await socket.send_text(encode(response if ref is None else {**response, "ref": ref}).decode())

    async def _handle(self, socket: WebSocket, frame: ClientFrame) -> tuple[str, JsonObject]:
        if frame.type == "ping":
            return "pong", {}
        caller = caller_of(socket)
        if not self._presence.is_current(caller):
            raise Unauthenticated(
                "the token of this socket is no longer valid", reason="socket_token", hint="connect with another token"
            )
        if not caller.may("runs.control"):
            raise Forbidden(
                "this needs the right runs.control",
                reason="socket_read_only",
                hint="this caller may only read the run",
                right="runs.control",
            )
        error = self._rates.take(f"{caller.workspace}/{caller.name}")
        if error is not None:
            raise error
        row = await self._rows.of(socket)  # checks access again
        if frame.type == "cancel":
            await self._control.stop(row, caller)
            return "done", {"run_id": row.run_id, "cancelling": True}
        message: JsonObject = {
            name: value for name, value in frame.to_wire().items() if name in _MESSAGE and value is not None
        }
        accepted = await self._control.say(row, parsed(SteerRun, message), caller, frame.id, repeats=False)
        return "done", accepted_body(accepted)


class _Reader:
    """The client of the socket, which loses access when `end` is called."""

    def __init__(self) -> None:
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.ended = False

    def end(self) -> None:
        if not self.gone.done():
            self.ended = True
            self.gone.set_result(None)


async def _send_records(socket: WebSocket, batches: AsyncGenerator[list[StreamRecord]]) -> None:
    ended = False
    async for batch in batches:
        for record in batch:
            await socket.send_text(text_frame(record))
            ended = record.type == "run.ended"
    await socket.close(_DONE if ended else _BEHIND, "" if ended else "resume behind the last id")


def _frame(text: str | None) -> ClientFrame:
    if text is None:
        raise InvalidRequest(
            "the frame is not text", reason="frame_binary", hint="send JSON as text frames", field="frame"
        )
    if len(text) > BODY_BYTES:
        raise InvalidRequest(
            f"the frame is larger than {BODY_BYTES} bytes",
            reason="frame_size",
            hint="send less",
            field="frame",
            max_bytes=BODY_BYTES,
        )
    try:
        value = decode(text.encode())
    except FrameError as error:
        raise InvalidRequest(
            f"the frame is not JSON: {error.detail}",
            reason="frame_json",
            hint="send one JSON object",
            field="frame",
            problem=error.detail,
            problem_type=f"json.{error.fault}",
        ) from error
    if not isinstance(value, dict):
        raise InvalidRequest(
            "the frame is not a JSON object", reason="frame_object", hint="send one JSON object", field="frame"
        )
    return parsed(ClientFrame, value)
