"""`/runs`: create, list, read and stream. JSON to values, values to JSON; what happens is decided elsewhere."""

import asyncio
from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from bollard.host.core import Core
from bollard.host.errors import InvalidRequest
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.external import ExternalExecution
from bollard.host.http.requests import CreateRun, chosen_id, message_of, page_limit, parsed, whole_number
from bollard.host.http.run_rows import WORKSPACE, RunRows, accepted_body, record_of, run_of
from bollard.host.http.sse import EventStream
from bollard.host.intake.accepted import Accepted
from bollard.host.limits import GATHER_S
from bollard.host.runs.hub import StreamRecord
from bollard.host.runs.reading import Place, parse_place
from bollard.host.store.boundary import RunQuery, Store
from bollard.host.store.rows import RunRow
from bollard.protocol import JsonObject
from bollard.trust import BadCursor, open_cursor, seal_cursor

__all__ = ["Runs"]

_LIST = "runs.list"


class Runs:
    """What can be asked about runs."""

    def __init__(
        self, *, core: Core, store: Store, rows: RunRows, external: ExternalExecution, cursor_secret: bytes
    ) -> None:
        self._intake = core.intake
        self._maker = core.maker
        self._reader = core.reader
        self._store = store
        self._rows = rows
        self._external = external
        self._cursor_secret = cursor_secret

    async def create(self, request: Request) -> Response:
        body = parsed(CreateRun, await read_body(request))
        event = message_of(
            body.input,
            body.actor,
            chosen_id(request, body.id) or self._maker.new_id(),
            conversation=body.conversation,
            thread=body.thread,
            data=body.data,
        )
        outside = body.execution == "external"
        streamed = not outside and "text/event-stream" in request.headers.get("accept", "")
        accepted = await self._intake.accept(event, WORKSPACE, body.agent, watch=streamed, external=outside)
        if streamed and accepted.run_id is not None:
            return self._streamed(accepted, accepted.run_id)
        answer = accepted_body(accepted)
        if outside:
            answer |= await self._external.token_of(accepted)
        return JsonAnswer(answer, status_code=202 if accepted.first else 200)

    def _streamed(self, accepted: Accepted, run_id: str) -> Response:
        if accepted.subscription is not None:
            batches = self._reader.follow(run_id, accepted.subscription, 0, gather_s=GATHER_S)
            return _Stream(run_id, batches, held=True)
        # A message that went into a run is answered by what comes behind it; any other run is told from its start.
        place = None if accepted.place is None else Place(*accepted.place)
        return _Stream(run_id, self._reader.read(run_id, place))

    async def list(self, request: Request) -> Response:
        limit = page_limit(request)
        cursor = request.query_params.get("cursor")
        status = request.query_params.get("status")
        query = RunQuery(
            workspace=WORKSPACE,
            limit=limit + 1,
            before=self._open_cursor(cursor) if cursor else None,
            statuses=frozenset({status}) if status else None,
            agent_id=request.query_params.get("agent"),
            conversation=request.query_params.get("conversation"),
        )
        parent = request.query_params.get("parent")
        if parent is None:
            rows = await asyncio.to_thread(self._store.runs, query)
        else:
            rows = _page(await asyncio.to_thread(self._store.children, parent), query)
        more, rows = len(rows) > limit, rows[:limit]
        body: JsonObject = {"items": [run_of(row).to_wire() for row in rows], "has_more": more}
        if more:
            place = [rows[-1].created_ms, rows[-1].run_id]
            body["next_cursor"] = seal_cursor(self._cursor_secret, purpose=_LIST, scope=WORKSPACE, place=[*place])
        return JsonAnswer(body)

    def _open_cursor(self, cursor: str) -> tuple[int, str]:
        try:
            place = open_cursor(self._cursor_secret, cursor, purpose=_LIST, scope=WORKSPACE)
        except BadCursor as error:
            raise InvalidRequest(str(error), hint="start again without a cursor", field="cursor") from error
        if not isinstance(place, list) or len(place) != 2:
            raise InvalidRequest("the cursor is not valid here", hint="start again without a cursor", field="cursor")
        return int(str(place[0])), str(place[1])

    async def get(self, request: Request) -> Response:
        row = await self._rows.of(request)
        return JsonAnswer(run_of(row, await self._rows.steering_of(row)).to_wire())

    async def records(self, request: Request) -> Response:
        row = await self._rows.of(request)
        limit = page_limit(request)
        after = whole_number(request, "after", "use the seq of the last record you got") or 0
        rows = await asyncio.to_thread(self._store.records_of_run, row.run_id, after, limit + 1)
        items = [record_of(found).to_wire() for found in rows[:limit]]
        return JsonAnswer({"items": items, "has_more": len(rows) > limit})

    async def stream(self, request: Request) -> Response:
        last = request.headers.get("last-event-id") or request.query_params.get("after")
        after = parse_place(last) if last else None
        row = await self._rows.of(request)
        return _Stream(row.run_id, self._reader.read(row.run_id, after))


class _Stream(Response):
    """A run as server-sent events."""

    def __init__(self, run_id: str, batches: AsyncGenerator[list[StreamRecord]], *, held: bool = False) -> None:
        super().__init__()
        self._events = EventStream(batches, [(b"bollard-run-id", run_id.encode())], held=held)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._events(scope, receive, send)


def _page(children: list[RunRow], query: RunQuery) -> list[RunRow]:
    """The runs that one run called, as a list of runs has them: newest first, behind its cursor."""
    found = [
        row
        for row in sorted(children, key=lambda row: (row.created_ms, row.run_id), reverse=True)
        if row.workspace == query.workspace
        and (query.before is None or (row.created_ms, row.run_id) < query.before)
        and (query.statuses is None or row.status in query.statuses)
        and query.agent_id in (None, row.agent_id)
        and query.conversation in (None, row.conversation)
    ]
    return found[: query.limit]
