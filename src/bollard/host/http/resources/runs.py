"""`/runs`: create, list, show and stream runs. This module converts between JSON and values only."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from bollard.host.core import Core
from bollard.host.errors import InvalidRequest
from bollard.host.events.acceptance import Accepted
from bollard.host.http.answers import JsonAnswer, header_of
from bollard.host.http.auth.callers import caller_of, speaker
from bollard.host.http.auth.presence import REVOKED
from bollard.host.http.bodies import CreateRun, chosen_id, message_event, parsed, source_of
from bollard.host.http.events.incoming import read_message
from bollard.host.http.events.message_inputs import MessageInputs
from bollard.host.http.events.payloads import Payloads
from bollard.host.http.idempotency import KEY_HEADER, key_of, refuse_other
from bollard.host.http.openapi.examples import (
    ACCEPTED_EXAMPLE,
    RECORD_EXAMPLE,
    RUN_EXAMPLE,
    RUN_STREAM_EXAMPLE,
    page_example,
)
from bollard.host.http.openapi.schemas import ACCEPTED, SSE, STREAM
from bollard.host.http.operations import PAGE, Answer, HeaderField, QueryField, leads_to
from bollard.host.http.queries import CREATED, Pages, created_between, page_limit, whole_number
from bollard.host.http.request_log import traceparent_of
from bollard.host.http.resources.declaration import DeclaredResource, operation
from bollard.host.http.resources.external_runs import ExternalExecution
from bollard.host.http.resources.run_rows import RunRows, ShownRun, accepted_body, record_of, run_of
from bollard.host.http.streams.sse import EventStream
from bollard.host.limits import GATHER_S, RECORDS_PAGE_BYTES, RUNS_SEARCHED
from bollard.host.runs.hub import StreamRecord, gap_record
from bollard.host.runs.stream import StreamPosition, parse_place
from bollard.host.scope import Scope
from bollard.host.store.keys import key_problem
from bollard.host.store.queries import InputFilter, RunQuery
from bollard.host.store.store import Store
from bollard.protocol import RUN_STATUSES, AgentRunRecord, JsonValue

_LIST: Final = "runs.list"
AFTER: Final = QueryField(
    name="after", summary="The id of the last received record, `epoch.seq`.", most=16, example="1.4"
)
LAST_EVENT: Final = HeaderField(
    name="Last-Event-ID", summary="The last received id; the stream continues after it.", example="1.4"
)
_NEXT: Final = leads_to(
    "run_id",
    getRun="The run.",
    listRunRecords="The records of the run.",
    streamRun="The stream of the run.",
    getRunGrant="The grant of the run.",
    cancelRun="Cancel the run.",
)
EVENT_ERRORS: Final = (
    "not_found",
    "conflict",
    "payload_too_large",
    "budget_exceeded",
    "draining",
    "storage_full",
    "storage_unavailable",
    "worker_unavailable",
)
"""The errors of an event."""


_RUN: Final = "/api/v1/runs/{run_id}"
_ACCEPTED: Final = Answer(
    summary="The event is on disk; `run_id` is its run.", schema=ACCEPTED, example=ACCEPTED_EXAMPLE
)
_STREAM: Final = Answer(
    summary="The run as server-sent events, each a record.",
    schema=SSE,
    example=RUN_STREAM_EXAMPLE,
    media_type=STREAM,
    headers={"Bollard-Run-Id": "The run."},
)


class Runs(DeclaredResource):
    """Creates, lists, shows and streams runs."""

    tag = "runs"

    def __init__(
        self,
        *,
        core: Core,
        store: Store,
        rows: RunRows,
        external: ExternalExecution,
        pages: Pages,
        inputs: MessageInputs,
        messages: Payloads,
    ) -> None:
        self._intake = core.intake
        self._maker = core.maker
        self._reader = core.reader
        self._store = store
        self._rows = rows
        self._external = external
        self._pages = pages
        self._inputs = inputs
        self._messages = messages

    @operation(
        "POST /api/v1/runs",
        name="createRun",
        summary="Send a message to an agent.",
        description="The event, the run and its grant are on disk before the answer is sent. `id`, or "
        "`Idempotency-Key`, identifies the message: a repeated message gets the first run, and never a second one. "
        'With `Accept: text/event-stream` the answer is the run as a stream. With `"execution": "external"` your '
        "program executes the run, and the answer has its `run_token`. While the run waits, the answer has its `id` "
        "instead: repeat the request with it to get the token.",
        right="runs.create",
        body=CreateRun,
        body_example={"agent": "parrot", "input": {"text": "Hello"}},
        repeat="own",
        answers={
            202: replace(_ACCEPTED, links=_NEXT),
            200: replace(
                _ACCEPTED,
                summary="A repeated message with its first outcome, or the stream of the run if requested.",
                stream_example=RUN_STREAM_EXAMPLE,
                headers={"Bollard-Run-Id": "Of a stream: the run."},
            ),
        },
        errors=(*EVENT_ERRORS, "idempotency_mismatch"),
    )
    async def create(self, request: Request) -> ASGIApp:
        body, caller = parsed(CreateRun, await read_message(request, self._messages)), caller_of(request)
        outside = body.execution == "external"
        chosen = chosen_id(key_of(request), body.id)
        named = chosen or self._maker.new_id()
        place = Scope(workspace=caller.workspace, conversation=body.conversation, thread=body.thread)
        await self._rows.check_entering(caller, place)
        source = source_of(caller, named if outside else chosen)
        key = (caller.workspace, source, named)
        event = message_event(
            body.input,
            Scope.of(place, speaker(caller, None if body.actor is None else body.actor.identity)),
            source,
            named,
            caller=caller.name,
            actor_name=None if body.actor is None else body.actor.name,
            data=body.data,
            traceparent=traceparent_of(request),
            taken=await self._inputs.take(body.input, place, caller.name, key, fresh=chosen is None),
            details=body.details,
        )
        streamed = not outside and "text/event-stream" in (header_of(request.scope, b"accept") or "")
        accepted = await self._intake.accept(event, body.agent, watch=streamed, external=outside, fresh=chosen is None)
        if not accepted.first and KEY_HEADER in request.headers:
            await refuse_other(self._store, accepted, event, body.agent, external=outside)
        if streamed and accepted.run_id is not None:
            return self._streamed(accepted, accepted.run_id)
        answer = accepted_body(accepted)
        if outside:
            # A repeat with this id gets the token later, so a caller that sent no id needs the one of the host.
            answer |= await self._external.token_of(accepted) or {"id": named}
        return JsonAnswer(answer, status_code=202 if accepted.first else 200)

    def _streamed(self, accepted: Accepted, run_id: str) -> EventStream:
        if accepted.subscription is not None:
            batches = self._reader.follow(run_id, accepted.subscription, 0, gather_s=GATHER_S)
            return _stream(run_id, batches, held=True)
        # The answer to a steering message is the stream after it; any other run is streamed from its start.
        place = None if accepted.place is None else StreamPosition(*accepted.place)
        return _stream(run_id, self._reader.read(run_id, place), behind=0 if place is None else place.seq)

    @operation(
        "GET /api/v1/runs",
        name="listRuns",
        summary="List runs, newest first.",
        description="A page may be shorter than its limit, even empty, and still have a `next_cursor`, because the "
        "number of runs that are searched by `source`, `actor` and `text` for one page is limited.",
        right="runs.read",
        query=(
            *PAGE,
            QueryField(name="status", summary="Only runs with this status.", choices=RUN_STATUSES),
            QueryField(name="agent", summary="Only runs of this agent.", example="parrot"),
            QueryField(name="conversation", summary="Only runs of this conversation.", example="support-7"),
            QueryField(name="parent", summary="Only runs that this run called.", example="run_01"),
            QueryField(name="source", summary="Only runs whose event has this source.", example="api"),
            QueryField(name="actor", summary="Only runs of the actor with this id.", example="ann"),
            QueryField(
                name="text",
                summary="Only runs whose message has this text in its first 200 characters.",
                most=200,
                example="report",
            ),
            *CREATED,
        ),
        answers={200: Answer(summary="A page of runs.", items=ShownRun, example=page_example(RUN_EXAMPLE))},
    )
    async def list(self, request: Request) -> Response:
        asked, limit = request.query_params, page_limit(request)
        status = asked.get("status")
        since, until = created_between(request)
        query = RunQuery(
            workspace=caller_of(request).workspace,
            limit=limit + 1,
            before=_place(self._pages.place(request, _LIST)),
            statuses=frozenset({status}) if status else None,
            agent_id=asked.get("agent"),
            conversation=_conversation(request),
            parent=asked.get("parent"),
            since_ms=since,
            until_ms=until,
        )
        wanted = InputFilter(source=asked.get("source"), actor_id=asked.get("actor"), text=asked.get("text"))
        page = await asyncio.to_thread(self._store.listed_runs, query, wanted, RUNS_SEARCHED)
        shown, behind = page.rows[:limit], page.searched_to
        if len(page.rows) > limit:
            behind = (shown[-1].run.created_ms, shown[-1].run.run_id)
        hidden = await self._rows.hidden(request, [row.run for row in shown])
        items = [run_of(row).to_wire() for row in shown if row.run.run_id not in hidden]
        return self._pages.answer(request, _LIST, items, None if behind is None else [*behind])

    @operation(
        f"GET {_RUN}",
        name="getRun",
        summary="One run.",
        description="Messages that were given to the run while it was active are in `metadata.steering`. A run that "
        "failed has `error`.",
        right="runs.read",
        answers={200: Answer(summary="The run.", schema=ShownRun, example=RUN_EXAMPLE)},
        errors=("not_found",),
    )
    async def get(self, request: Request) -> Response:
        row = await self._rows.of(request)
        steering, error = await self._rows.steering_of(row), await self._rows.error_of(row)
        return JsonAnswer(run_of(await self._rows.listed(row), steering, error).to_wire())

    @operation(
        f"GET {_RUN}/records",
        name="listRunRecords",
        summary="List the records of a run that are on disk, without deltas, oldest first.",
        description="The records of the log. Deltas are only in the stream.",
        right="runs.read",
        query=(*PAGE, QueryField(name="after", summary="Only records after this `seq`.", kind="number", example=2)),
        answers={200: Answer(summary="A page of records.", items=AgentRunRecord, example=page_example(RECORD_EXAMPLE))},
        errors=("not_found",),
    )
    async def records(self, request: Request) -> Response:
        row = await self._rows.of(request)
        limit = page_limit(request)
        purpose = f"runs.records/{row.run_id}"
        after = whole_number(request, "after", "use the seq of the last record you got")
        place = self._pages.numbered(request, purpose)
        if after is not None and place is not None:
            raise InvalidRequest(
                "cursor and after exclude each other", reason="cursor_and_after", hint="send one of them", field="after"
            )
        rows = await asyncio.to_thread(self._store.records_of_run, row.run_id, after or place or 0, limit + 1)
        return self._pages.of_rows(
            request,
            purpose,
            rows,
            lambda found: record_of(found).to_wire(),
            lambda found: found.seq,
            cut=sum(len(found.data or b"") for found in rows) >= RECORDS_PAGE_BYTES,
        )

    @operation(
        f"GET {_RUN}/stream",
        name="streamRun",
        summary="Stream a run, from its beginning or after `Last-Event-ID`.",
        description="Server-sent events, one per record, in the order of `seq` and without holes; the last one is "
        "`run.ended`. An event `gap` stands for records that cannot be sent.",
        right="runs.read",
        ticket=True,
        query=(AFTER,),
        headers=(LAST_EVENT,),
        answers={200: _STREAM},
        errors=("not_found",),
    )
    async def stream(self, request: Request) -> EventStream:
        last = request.headers.get("last-event-id") or request.query_params.get("after")
        after = parse_place(last) if last else None
        row = await self._rows.of(request)
        batches = self._rows.watched(request, row, self._reader.read(row.run_id, after))
        return _stream(row.run_id, batches, behind=0 if after is None else after.seq)


def _stream(
    run_id: str, batches: AsyncGenerator[list[StreamRecord]], *, behind: int = 0, held: bool = False
) -> EventStream:
    """A run as server-sent events. `behind` is the number of the last record that the reader has received."""
    return EventStream(
        batches,
        [(b"bollard-run-id", run_id.encode())],
        held=held,
        last_word=lambda seen: gap_record(run_id, 0, (behind if seen is None else seen) + 1, None, REVOKED),
    )


def _conversation(request: Request) -> str | None:
    wanted = request.query_params.get("conversation")
    if wanted is not None and (problem := key_problem(wanted)) is not None:
        raise InvalidRequest(
            f"conversation {problem}",
            reason="conversation_key",
            hint="choose another name for the conversation",
            field="conversation",
            problem=problem,
        )
    return wanted


def _place(place: JsonValue) -> tuple[int, str] | None:
    """The position of the next page of runs, as sealed in the cursor."""
    return (int(str(place[0])), str(place[1])) if isinstance(place, list) else None
