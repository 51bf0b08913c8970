"""`Idempotency-Key`: a POST that comes again is answered as it was the first time, and is not done again.

Before the operation begins it is written down that it will; afterwards what it answered. So a host that dies between
the two does not do it twice: it says that the outcome is not known. Answers may hold what is shown only once, such as a
new key; they are sealed with a key made of the request's own, which is kept nowhere.
"""

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import msgspec
import structlog
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message

from bollard.host.clock import Clock
from bollard.host.errors import Conflict, HostError, InvalidRequest, Overloaded, StorageFull
from bollard.host.events.acceptance import Accepted
from bollard.host.http.answers import read_bytes
from bollard.host.http.errors import InFlight, RepeatMismatch
from bollard.host.http.operations import Operation
from bollard.host.identity.caller import Caller
from bollard.host.limits import ANSWERS_IN_FLIGHT, KEPT_ANSWER_BYTES, KEPT_ANSWER_S
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.recovery import facts_of
from bollard.host.runs.event import NewEvent
from bollard.host.store.rows import DropKept, KeptChange, KeptRow, PutKept
from bollard.host.store.store import Store

_log = structlog.get_logger("bollard.host.http")

KEY_HEADER: Final = "idempotency-key"
KEY_CHARACTERS: Final = 256
_REPLAYED: Final = "idempotency-replayed"
_KIND: Final = "answer"
_NONCE_BYTES: Final = 12
_SHOWN: Final = frozenset({"content-type", "etag", "location"})
"""Headers of an answer that belong to it; the rest belongs to how it was sent."""

Handler = Callable[[Request], Awaitable[ASGIApp]]


class _Note(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of a request: its digest; once it was answered, the answer, sealed."""

    digest: bytes
    sealed: bytes | None = None
    too_large: bool = False


class _Given(msgspec.Struct, frozen=True, array_like=True):
    """An answer."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class _Slot(msgspec.Struct, frozen=True):
    """Where the answer to one key of one caller is kept, and what it is sealed with."""

    workspace: str
    id: str
    seal: bytes
    digest: bytes


_encode: Final = msgspec.msgpack.Encoder().encode
_notes: Final = msgspec.msgpack.Decoder(_Note)
_answers: Final = msgspec.msgpack.Decoder(_Given)


def key_of(request: Request) -> str | None:
    """The key of a request; raises `InvalidRequest`."""
    key = request.headers.get(KEY_HEADER)
    if key is not None and (not key or len(key) > KEY_CHARACTERS or not (key.isascii() and key.isprintable())):
        raise InvalidRequest(
            f"Idempotency-Key is not 1 to {KEY_CHARACTERS} printable ASCII characters",
            hint="send a new random id for every request that is another one",
            field="id",
        )
    return key


class Repeats:
    """Knows which requests came before."""

    def __init__(self, *, journal: Journal, store: Store, clock: Clock, secret: bytes) -> None:
        self._journal = journal
        self._store = store
        self._clock = clock
        self._secret = hashlib.sha256(b"bollard-kept-answers\0" + secret).digest()
        self._open: dict[str, bytes] = {}

    async def answer(self, operation: Operation, handler: Handler, request: Request, caller: Caller | None) -> ASGIApp:
        """What the handler answers, or what it answered before."""
        key = key_of(request)
        if key is None or caller is None:  # without a caller nobody knows whose key it is
            return await handler(request)
        body = b"" if operation.repeat == "head" else await read_bytes(request)
        slot = self._slot(caller, key, request, body, by_head=operation.repeat == "head")
        self._refuse_open(slot)
        self._open[slot.id] = slot.digest
        try:
            known = await asyncio.to_thread(self._store.kept, _KIND, slot.workspace, slot.id, self._clock.now_ms())
            if known is not None:
                return _again(slot, _notes.decode(known.body))
            await self._write(self._put(slot, _Note(slot.digest)))
            return await self._first(slot, handler, request if operation.repeat == "head" else _with(request, body))
        finally:
            del self._open[slot.id]

    def _slot(self, caller: Caller, key: str, request: Request, body: bytes, *, by_head: bool) -> _Slot:
        whose = f"{caller.workspace}\0{caller.name}\0{key}".encode()
        scope = request.scope
        length = request.headers.get("content-length", "").encode() if by_head else b""
        head = b"%b\0%b\0%b\0%b\0" % (scope["method"].encode(), scope["path"].encode(), scope["query_string"], length)
        return _Slot(
            workspace=caller.workspace,
            id=self._digest(b"slot", whose).hex()[:48],
            seal=self._digest(b"seal", whose),
            digest=self._digest(b"request", head + body),
        )

    def _digest(self, purpose: bytes, text: bytes) -> bytes:
        return hmac.new(self._secret, purpose + b"\0" + text, hashlib.sha256).digest()

    def _refuse_open(self, slot: _Slot) -> None:
        digest = self._open.get(slot.id)
        if digest is not None:
            if digest != slot.digest:
                raise _mismatch()
            raise InFlight("a request with this Idempotency-Key is being answered", hint="wait for it, then ask again")
        if len(self._open) >= ANSWERS_IN_FLIGHT:
            raise Overloaded(
                "too many requests with an Idempotency-Key are being answered",
                hint="try again in a moment",
                limit=ANSWERS_IN_FLIGHT,
            )

    async def _first(self, slot: _Slot, handler: Handler, request: Request) -> ASGIApp:
        """Done for the first time. What was refused had no effect, so that it may be tried again."""
        try:
            answer = await handler(request)
        except Exception:
            await self._forget(slot)
            raise
        if not isinstance(answer, Response) or answer.status_code >= 400:
            await self._forget(slot)
            return answer
        headers = [(name, value) for name, value in answer.headers.items() if name in _SHOWN]
        given = _encode(_Given(answer.status_code, headers, bytes(answer.body)))
        large = len(given) > KEPT_ANSWER_BYTES
        note = _Note(slot.digest, None if large else _sealed(slot, given), large)
        try:
            await self._write(self._put(slot, note))
        except HostError as error:
            _log.warning("an answer could not be kept: its repeat will be refused", problem=error.message)
        return answer

    async def _forget(self, slot: _Slot) -> None:
        try:
            await self._write(DropKept(_KIND, slot.workspace, slot.id))
        except HostError as error:
            _log.warning("a refused request could not be forgotten: its repeat will be", problem=error.message)

    def _put(self, slot: _Slot, note: _Note) -> PutKept:
        now_ms = self._clock.now_ms()
        return PutKept(
            KeptRow(
                kind=_KIND,
                workspace=slot.workspace,
                id=slot.id,
                body=_encode(note),
                expires_ms=now_ms + round(KEPT_ANSWER_S * 1000),
                updated_ms=now_ms,
            )
        )

    async def _write(self, change: KeptChange) -> None:
        if self._journal.full:
            raise StorageFull(
                "the disk is full, so that no answer can be kept",
                hint="free space in the data directory, or send the request without Idempotency-Key",
            )
        size = len(change.row.body) if isinstance(change, PutKept) else 0
        await self._journal.commit(Entry(keeps=[change], size=size))


def _with(request: Request, body: bytes) -> Request:
    """The request again, its body not read yet."""
    told = False

    async def receive() -> Message:
        nonlocal told
        if told:
            return await request.receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(request.scope, receive)


def _again(slot: _Slot, note: _Note) -> Response:
    if not hmac.compare_digest(note.digest, slot.digest):
        raise _mismatch()
    if note.too_large:
        raise Conflict("this was done, and its answer was too large to keep", hint="read the thing that it changed")
    if note.sealed is None:
        raise Conflict(
            "this was begun and cut off: whether it was done is not known",
            hint="look whether it was, and ask again with another Idempotency-Key if it was not",
        )
    try:
        given = _answers.decode(_opened(slot, note.sealed))
    except InvalidTag:  # the host's secret is another one now
        raise Conflict("this was done, and its answer cannot be read", hint="read the thing that it changed") from None
    return Response(given.body, status_code=given.status, headers={**dict(given.headers), _REPLAYED: "true"})


def _sealed(slot: _Slot, text: bytes) -> bytes:
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + AESGCM(slot.seal).encrypt(nonce, text, slot.id.encode())


def _opened(slot: _Slot, sealed: bytes) -> bytes:
    return AESGCM(slot.seal).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], slot.id.encode())


def _mismatch() -> RepeatMismatch:
    return RepeatMismatch(
        "this Idempotency-Key came before with another request",
        hint="use a new key for a new request; repeat a request exactly as it was",
    )


# Whether an event that came again under the same `Idempotency-Key` is the same one. Asked only of repeats.


async def refuse_other(
    store: Store,
    workspace: str,
    accepted: Accepted,
    event: NewEvent,
    agent_id: str | None,
    *,
    external: bool | None = None,
) -> None:
    """Raises `RepeatMismatch` where the first one said something else, said it to another agent, or was to be executed
    by somebody else."""
    if accepted.first:
        return
    if not await asyncio.to_thread(_is_same, store, workspace, accepted, event, agent_id, external):
        raise RepeatMismatch(
            "this Idempotency-Key came before with another request",
            hint="use a new key for a new request; repeat a request exactly as it was",
            event_id=accepted.event_id,
        )


def _is_same(
    store: Store, workspace: str, accepted: Accepted, event: NewEvent, agent_id: str | None, external: bool | None
) -> bool:
    row = store.event(workspace, accepted.event_id)
    if row is None:
        return True
    record = next(iter(store.records(row.record_id - 1, 1)), None)
    if record is None or record.data is None:
        return True  # retention dropped what it said
    _, first = NewEvent.from_record(record.data)
    run = None if accepted.run_id is None or agent_id is None else store.run(accepted.run_id)
    if run is not None and (run.agent_id != agent_id or external not in (None, facts_of(run).external)):
        return False
    return _said(first) == _said(event)


def _said(event: NewEvent) -> NewEvent:
    """Without what differs each time it is sent."""
    return replace(event, caller=None, traceparent=None, extra=None, known=True)
