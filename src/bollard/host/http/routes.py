"""Routes of `/api/v1`. They translate: JSON to values, values to JSON; what happens is decided elsewhere."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from bollard.host.agents.agent import AgentBook
from bollard.host.core import Core
from bollard.host.errors import Conflict, HostError, InvalidRequest, NotFound
from bollard.host.http.answers import JsonAnswer, error_answer, read_body
from bollard.host.http.requests import CreateRun, PostEvent
from bollard.host.http.sse import EventStream
from bollard.host.http.token import AdminToken
from bollard.host.intake.accepted import Accepted
from bollard.host.log.records import record_from_row
from bollard.host.runs.event import NewEvent
from bollard.host.runs.hub import StreamRecord
from bollard.host.runs.reading import parse_place
from bollard.host.store.boundary import RunQuery, Store
from bollard.host.store.rows import RunRow
from bollard.protocol import (
    TERMINAL_STATUSES,
    AgentRun,
    JsonObject,
    Strict,
    first_problem,
)
from bollard.trust import BadCursor, open_cursor, seal_cursor

__all__ = ["Api"]

S = TypeVar("S", bound=Strict)
Handler = Callable[[Request], Awaitable[Response]]
_WORKSPACE = "default"


class Api:
    """What the routes need, and the routes."""

    def __init__(
        self,
        *,
        core: Core,
        store: Store,
        agents: AgentBook,
        token: AdminToken,
        cursor_secret: bytes,
        health: Callable[[], JsonObject],
    ) -> None:
        self._dispatcher = core.dispatcher
        self._intake = core.intake
        self._reader = core.reader
        self._store = store
        self._agents = agents
        self._token = token
        self._cursor_secret = cursor_secret
        self._health = health

    def routes(self) -> list[Route]:
        known = [
            Route("/healthz", self._healthz),
            Route("/readyz", self._readyz),
            Route("/api/v1/runs", _Guarded(self._create_run, self._token), methods=["POST"]),
            Route("/api/v1/runs", _Guarded(self._list_runs, self._token), methods=["GET"]),
            Route("/api/v1/runs/{run_id}", _Guarded(self._get_run, self._token), methods=["GET"]),
            Route("/api/v1/runs/{run_id}/records", _Guarded(self._records, self._token), methods=["GET"]),
            Route("/api/v1/runs/{run_id}/stream", _Guarded(self._stream, self._token), methods=["GET"]),
            Route("/api/v1/runs/{run_id}/cancel", _Guarded(self._cancel, self._token), methods=["POST"]),
            Route("/api/v1/events", _Guarded(self._post_event, self._token), methods=["POST"]),
            Route("/api/v1/agents", _Guarded(self._list_agents, self._token), methods=["GET"]),
        ]
        return [*known, Route("/{path:path}", _Elsewhere(known))]

    async def _healthz(self, request: Request) -> Response:
        del request
        return PlainTextResponse("ok")

    async def _readyz(self, request: Request) -> Response:
        del request
        health = self._health()
        return JsonAnswer(health, status_code=200 if health.get("ready") else 503)

    # --- runs ---

    async def _create_run(self, request: Request) -> Response:
        body = _read(CreateRun, await read_body(request))
        actor = body.actor
        event = NewEvent(
            source="api",
            source_id=body.id or secrets.token_hex(16),
            event_type="message.received",
            text=body.input.text,
            contents=tuple(element.to_wire() for element in body.input.contents),
            conversation=body.conversation,
            thread=body.thread,
            actor_type=actor.type if actor is not None else None,
            actor_id=actor.id if actor is not None else None,
            actor_name=actor.name if actor is not None else None,
            data=body.data,
        )
        streamed = "text/event-stream" in request.headers.get("accept", "")
        accepted = await self._intake.accept(event, _WORKSPACE, body.agent, watch=streamed)
        if streamed:
            return self._streamed(accepted)
        return JsonAnswer(_accepted(accepted), status_code=202 if accepted.first else 200)

    def _streamed(self, accepted: Accepted) -> Response:
        run_id = accepted.run_id or ""
        if accepted.subscription is None:
            return _Stream(run_id, self._reader.read(run_id, None))
        return _Stream(run_id, self._reader.follow(run_id, accepted.subscription, 0))

    async def _list_runs(self, request: Request) -> Response:
        limit = _limit(request)
        cursor = request.query_params.get("cursor")
        before: tuple[int, str] | None = None
        if cursor:
            place = self._open_cursor(cursor, "runs.list")
            before = (place[0], place[1])
        status = request.query_params.get("status")
        rows = await asyncio.to_thread(
            self._store.runs,
            RunQuery(
                workspace=_WORKSPACE,
                limit=limit + 1,
                before=before,
                statuses=frozenset({status}) if status else None,
                agent_id=request.query_params.get("agent"),
                conversation=request.query_params.get("conversation"),
            ),
        )
        more, rows = len(rows) > limit, rows[:limit]
        body: JsonObject = {"items": [run_of(row).to_wire() for row in rows], "has_more": more}
        if more:
            place = [rows[-1].created_ms, rows[-1].run_id]
            body["next_cursor"] = seal_cursor(
                self._cursor_secret, purpose="runs.list", scope=_WORKSPACE, place=[place[0], place[1]]
            )
        return JsonAnswer(body)

    def _open_cursor(self, cursor: str, purpose: str) -> tuple[int, str]:
        try:
            place = open_cursor(self._cursor_secret, cursor, purpose=purpose, scope=_WORKSPACE)
        except BadCursor as error:
            raise InvalidRequest(str(error), hint="start again without a cursor", field="cursor") from error
        if not isinstance(place, list) or len(place) != 2:
            raise InvalidRequest("the cursor is not valid here", hint="start again without a cursor", field="cursor")
        return int(str(place[0])), str(place[1])

    async def _get_run(self, request: Request) -> Response:
        return JsonAnswer(run_of(await self._row(request)).to_wire())

    async def _row(self, request: Request) -> RunRow:
        run_id = request.path_params["run_id"]
        row = await asyncio.to_thread(self._store.run, run_id) if len(run_id) <= 64 else None
        if row is None or row.workspace != _WORKSPACE:
            raise NotFound("there is no such run", hint="`bollard runs` lists the newest")
        return row

    async def _records(self, request: Request) -> Response:
        row = await self._row(request)
        limit = _limit(request)
        after = request.query_params.get("after", "0")
        if not after.isascii() or not after.isdigit() or len(after) > 15:
            raise InvalidRequest("after is not a seq", hint="use the seq of the last record you got", field="after")
        rows = await asyncio.to_thread(self._store.records_of_run, row.run_id, int(after), limit + 1)
        items = [record_from_row(found).to_wire() for found in rows[:limit]]
        return JsonAnswer({"items": items, "has_more": len(rows) > limit})

    async def _stream(self, request: Request) -> Response:
        last = request.headers.get("last-event-id") or request.query_params.get("after")
        after = parse_place(last) if last else None
        row = await self._row(request)
        return _Stream(row.run_id, self._reader.read(row.run_id, after))

    async def _cancel(self, request: Request) -> Response:
        row = await self._row(request)
        if not await self._dispatcher.cancel(row.run_id, "cancelled"):
            row = await self._row(request)
            if row.status in TERMINAL_STATUSES:
                raise Conflict(f"the run has ended: {row.status}", hint="there is nothing to cancel", status=row.status)
            raise Conflict("the run is not on this host", hint="try again in a moment", status=row.status)
        return JsonAnswer({"run_id": row.run_id, "cancelling": True}, status_code=202)

    # --- events and agents ---

    async def _post_event(self, request: Request) -> Response:
        body = _read(PostEvent, await read_body(request))
        actor = body.actor
        event = NewEvent(
            source=body.source,
            source_id=body.id,
            event_type=body.type,
            trigger="webhook",
            text=body.text,
            conversation=body.conversation,
            thread=body.thread,
            actor_type=actor.type if actor is not None else None,
            actor_id=actor.id if actor is not None else None,
            actor_name=actor.name if actor is not None else None,
            subject_type=body.subject_type,
            subject_id=body.subject_id,
            event_ms=round(body.time * 1000) if body.time is not None else None,
            data=body.data,
        )
        accepted = await self._intake.accept(event, _WORKSPACE, body.agent)
        return JsonAnswer(_accepted(accepted), status_code=202 if accepted.first else 200)

    async def _list_agents(self, request: Request) -> Response:
        del request
        items: list[JsonObject] = [
            {
                "agent_id": agent.agent_id,
                "runner_id": agent.runner_id,
                "label": {**agent.label},
                "deadline_s": agent.deadline_s,
            }
            for agent in self._agents.all()
        ]
        return JsonAnswer({"items": items})


class _Stream(Response):
    """A run as server-sent events."""

    def __init__(self, run_id: str, batches: AsyncGenerator[list[StreamRecord]]) -> None:
        super().__init__()
        self._events = EventStream(batches, [(b"bollard-run-id", run_id.encode())])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._events(scope, receive, send)


class _Guarded:
    """A route behind the admin token, whose errors are typed answers. A plain ASGI app, so that it costs little."""

    def __init__(self, handler: Handler, token: AdminToken) -> None:
        self._handler = handler
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        if not self._token.allows(request.headers.get("authorization")):
            answer: ASGIApp = error_answer(_Unauthenticated())
        else:
            try:
                answer = await self._handler(request)
            except HostError as error:
                answer = error_answer(error)
        await answer(scope, receive, send)


class _Elsewhere:
    """Whatever no route takes: refused like everything else, with a code, a sentence and a hint."""

    def __init__(self, known: list[Route]) -> None:
        self._known = known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        here = [route for route in self._known if route.matches(scope)[0] is Match.PARTIAL]
        if not here:
            answer = error_answer(NotFound("there is nothing here", hint="see docs/reference/http.md"))
        else:
            methods = ", ".join(sorted({method for route in here for method in route.methods or ()}))
            answer = error_answer(_MethodNotAllowed(f"{scope['method']} is not possible here", hint=f"use {methods}"))
            answer.headers["allow"] = methods
        await answer(scope, receive, send)


class _MethodNotAllowed(HostError):
    code = "method_not_allowed"


class _Unauthenticated(HostError):
    code = "unauthenticated"

    def __init__(self) -> None:
        super().__init__(
            "this needs a token",
            hint="send `Authorization: Bearer …` with the admin token that the first start printed",
        )


def _read(shape: type[S], body: JsonObject) -> S:
    try:
        return shape.from_wire(body)
    except ValidationError as error:
        field, problem = first_problem(error)
        raise InvalidRequest(f"{field}: {problem}", hint="see docs/reference/http.md", field=field) from error


def _limit(request: Request) -> int:
    text = request.query_params.get("limit", "50")
    if not text.isascii() or not text.isdigit() or len(text) > 9 or not 1 <= int(text) <= 100:
        raise InvalidRequest("limit is not between 1 and 100", hint="use 1 to 100", field="limit")
    return int(text)


def _accepted(accepted: Accepted) -> JsonObject:
    return {"event_id": accepted.event_id, "run_id": accepted.run_id, "first": accepted.first}


def run_of(row: RunRow) -> AgentRun:
    """A run as programs read it."""

    def seconds(ms: int | None) -> float | None:
        return None if ms is None else ms / 1000

    return AgentRun(
        run_id=row.run_id,
        event_id=row.event_id,
        agent_id=row.agent_id,
        binding_id=row.binding_id,
        runner_id=row.runner_id,
        workspace_id=row.workspace,
        bot_id=row.bot,
        conversation_id=row.conversation,
        thread_id=row.thread,
        parent_run_id=row.parent_run_id,
        status=row.status,
        status_reason=row.reason,
        epoch=row.epoch,
        grant_sha256=row.grant_sha256,
        created_at=row.created_ms / 1000,
        started_at=seconds(row.started_ms),
        finished_at=seconds(row.finished_ms),
        updated_at=row.updated_ms / 1000,
        cancel_requested_at=seconds(row.cancel_requested_ms),
    )
