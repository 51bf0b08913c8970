"""`Idempotency-Key`: a repeated POST gets the first response and is not executed again.

The host records that an operation begins, and its response when it ends. If it dies in between, a repeat gets an error
that the outcome is unknown. Responses can have values that are shown only once, such as a new key, so they are
encrypted with a key that is derived from the request's `Idempotency-Key` and never stored.
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
from bollard.host.http.answers import header_of, read_bytes
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
_SAVED_HEADERS: Final = frozenset({"content-type", "etag", "location"})
"""Headers that are saved with a response; the others describe its transport."""

Handler = Callable[[Request], Awaitable[ASGIApp]]


class _SavedRequest(msgspec.Struct, frozen=True, array_like=True):
    """The digest of a request and, when it is done, its encrypted response."""

    digest: bytes
    sealed: bytes | None = None
    too_large: bool = False


class _SavedResponse(msgspec.Struct, frozen=True, array_like=True):
    """A response."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes


class _Slot(msgspec.Struct, frozen=True):
    """Where the response for one key of one caller is saved, and its encryption key."""

    workspace: str
    id: str
    seal: bytes
    digest: bytes


_encode: Final = msgspec.msgpack.Encoder().encode
_requests: Final = msgspec.msgpack.Decoder(_SavedRequest)
_responses: Final = msgspec.msgpack.Decoder(_SavedResponse)


def key_of(request: Request) -> str | None:
    """The `Idempotency-Key` of a request; raises `InvalidRequest`."""
    key = header_of(request.scope, KEY_HEADER.encode())
    if key is not None and (not key or len(key) > KEY_CHARACTERS or not (key.isascii() and key.isprintable())):
        raise InvalidRequest(
            f"Idempotency-Key must have 1 to {KEY_CHARACTERS} printable ASCII characters",
            reason="idempotency_key",
            hint="send a new random id for each new request",
            field="id",
            max_characters=KEY_CHARACTERS,
        )
    return key


class Repeats:
    """Saves the responses of requests with an `Idempotency-Key` and returns them to repeats."""

    def __init__(self, *, journal: Journal, store: Store, clock: Clock, secret: bytes) -> None:
        self._journal = journal
        self._store = store
        self._clock = clock
        self._secret = hashlib.sha256(b"bollard-kept-answers\0" + secret).digest()
        self._open: dict[str, bytes] = {}

    async def answer(self, operation: Operation, handler: Handler, request: Request, caller: Caller | None) -> ASGIApp:
        """The response of the handler, or the saved one."""
        key = key_of(request)
        if key is None or caller is None:  # keys belong to a caller
            return await handler(request)
        body = b"" if operation.repeat == "head" else await read_bytes(request)
        slot = self._slot(caller, key, request, body, by_head=operation.repeat == "head")
        self._refuse_open(slot)
        self._open[slot.id] = slot.digest
        try:
            row = await asyncio.to_thread(self._store.kept, _KIND, slot.workspace, slot.id, self._clock.now_ms())
            if row is not None:
                return _replay(slot, _requests.decode(row.body))
            await self._write(self._put(slot, _SavedRequest(slot.digest)))
            return await self._run(slot, handler, request if operation.repeat == "head" else _with_body(request, body))
        finally:
            del self._open[slot.id]

    def _slot(self, caller: Caller, key: str, request: Request, body: bytes, *, by_head: bool) -> _Slot:
        owner = f"{caller.workspace}\0{caller.name}\0{key}".encode()
        scope = request.scope
        length = request.headers.get("content-length", "").encode() if by_head else b""
        head = b"%b\0%b\0%b\0%b\0" % (scope["method"].encode(), scope["path"].encode(), scope["query_string"], length)
        return _Slot(
            workspace=caller.workspace,
            id=self._digest(b"slot", owner).hex()[:48],
            seal=self._digest(b"seal", owner),
            digest=self._digest(b"request", head + body),
        )

    def _digest(self, purpose: bytes, text: bytes) -> bytes:
        return hmac.new(self._secret, purpose + b"\0" + text, hashlib.sha256).digest()

    def _refuse_open(self, slot: _Slot) -> None:
        digest = self._open.get(slot.id)
        if digest is not None:
            if digest != slot.digest:
                raise _mismatch()
            raise InFlight(
                "a request with this Idempotency-Key is in progress",
                reason="in_flight",
                hint="wait for it, then repeat the request",
            )
        if len(self._open) >= ANSWERS_IN_FLIGHT:
            raise Overloaded(
                "too many requests with an Idempotency-Key are in progress",
                reason="idempotent_requests",
                hint="retry in a moment",
                limit=ANSWERS_IN_FLIGHT,
            )

    async def _run(self, slot: _Slot, handler: Handler, request: Request) -> ASGIApp:
        """Execute the request and save its response. An error is not saved: it had no effect, so a retry is allowed."""
        try:
            answer = await handler(request)
        except Exception:
            await self._forget(slot)
            raise
        if not isinstance(answer, Response) or answer.status_code >= 400:
            await self._forget(slot)
            return answer
        headers = [(name, value) for name, value in answer.headers.items() if name in _SAVED_HEADERS]
        encoded = _encode(_SavedResponse(answer.status_code, headers, bytes(answer.body)))
        large = len(encoded) > KEPT_ANSWER_BYTES
        saved = _SavedRequest(slot.digest, None if large else _encrypt(slot, encoded), large)
        try:
            await self._write(self._put(slot, saved))
        except HostError as error:
            _log.warning("a response could not be saved: repeats of the request will be refused", problem=error.message)
        return answer

    async def _forget(self, slot: _Slot) -> None:
        try:
            await self._write(DropKept(_KIND, slot.workspace, slot.id))
        except HostError as error:
            _log.warning("a failed request could not be removed: repeats of it will be refused", problem=error.message)

    def _put(self, slot: _Slot, saved: _SavedRequest) -> PutKept:
        now_ms = self._clock.now_ms()
        return PutKept(
            KeptRow(
                kind=_KIND,
                workspace=slot.workspace,
                id=slot.id,
                body=_encode(saved),
                expires_ms=now_ms + round(KEPT_ANSWER_S * 1000),
                updated_ms=now_ms,
            )
        )

    async def _write(self, change: KeptChange) -> None:
        if self._journal.full:
            raise StorageFull(
                "the disk is full: the response could not be saved for repeats",
                reason="saved_responses",
                hint="free space in the data directory, or send the request without Idempotency-Key",
            )
        size = len(change.row.body) if isinstance(change, PutKept) else 0
        await self._journal.commit(Entry(keeps=[change], size=size))


def _with_body(request: Request, body: bytes) -> Request:
    """The request with its body unread."""
    delivered = False

    async def receive() -> Message:
        nonlocal delivered
        if delivered:
            return await request.receive()
        delivered = True
        return {"type": "http.request", "body": body, "more_body": False}

    return Request(request.scope, receive)


def _replay(slot: _Slot, saved: _SavedRequest) -> Response:
    if not hmac.compare_digest(saved.digest, slot.digest):
        raise _mismatch()
    if saved.too_large:
        raise Conflict(
            "this request was executed, and its response was too large to save",
            reason="response_too_large",
            hint="read the resource that it changed",
        )
    if saved.sealed is None:
        raise Conflict(
            "this request was interrupted: its outcome is unknown",
            reason="interrupted",
            hint="check whether it took effect; if not, repeat it with another Idempotency-Key",
        )
    try:
        response = _responses.decode(_decrypt(slot, saved.sealed))
    except InvalidTag:  # the secret of the host has changed
        raise Conflict(
            "this request was executed, and its saved response is unreadable",
            reason="response_unreadable",
            hint="read the resource that it changed",
        ) from None
    return Response(response.body, status_code=response.status, headers={**dict(response.headers), _REPLAYED: "true"})


def _encrypt(slot: _Slot, text: bytes) -> bytes:
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + AESGCM(slot.seal).encrypt(nonce, text, slot.id.encode())


def _decrypt(slot: _Slot, sealed: bytes) -> bytes:
    return AESGCM(slot.seal).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], slot.id.encode())


def _mismatch(**details: str) -> RepeatMismatch:
    return RepeatMismatch(
        "this Idempotency-Key was used for another request",
        reason="other_request",
        hint="use a new key for a new request; repeat a request exactly as it was",
        **details,
    )


async def refuse_other(
    store: Store, accepted: Accepted, event: NewEvent, agent_id: str | None, *, external: bool | None = None
) -> None:
    """Raise `RepeatMismatch` if a repeated event differs from the first one in its content, its agent or its
    execution."""
    if accepted.first:
        return
    if not await asyncio.to_thread(_is_same, store, accepted, event, agent_id, external):
        raise _mismatch(event_id=accepted.event_id)


def _is_same(store: Store, accepted: Accepted, event: NewEvent, agent_id: str | None, external: bool | None) -> bool:
    workspace = event.scope.workspace
    row = store.event(workspace, accepted.event_id)
    if row is None:
        return True
    record = next(iter(store.records(row.record_id - 1, 1)), None)
    if record is None or record.data is None:
        return True  # retention dropped its data
    _, first = NewEvent.from_record(record.data, workspace)
    run = None if accepted.run_id is None or agent_id is None else store.run(accepted.run_id)
    if run is not None and (run.agent_id != agent_id or external not in (None, facts_of(run).external)):
        return False
    return _content(first) == _content(event)


def _content(event: NewEvent) -> NewEvent:
    """The event without the fields that differ between repeats."""
    return replace(event, caller=None, traceparent=None, extra=None, files=(), known=True)
