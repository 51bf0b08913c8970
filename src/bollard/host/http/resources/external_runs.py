"""Runs that an external program executes: their tokens, results and ends. Results are checked like those of a
worker."""

import asyncio
from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.errors import Conflict, Forbidden, HostError
from bollard.host.events.acceptance import Accepted
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import AppendResults, parsed
from bollard.host.http.guard import RunTokens
from bollard.host.http.openapi.schemas import ANY, TEXT, fields
from bollard.host.http.operations import Answer
from bollard.host.http.resources.declaration import DeclaredResource, answer, operation
from bollard.host.http.resources.run_rows import RunRows, no_run
from bollard.host.identity.caller import Caller, Right
from bollard.host.limits import REPLAY_PAGE
from bollard.host.log.records import data_of
from bollard.host.recovery import facts_of
from bollard.host.runs.external import ExternalResult, ExternalRuns
from bollard.host.runs.live_run import LiveRun
from bollard.host.secrets.redactor import Scrubber
from bollard.host.store.rows import RecordRow, RunRow
from bollard.host.store.store import Store
from bollard.protocol import TERMINAL_STATUSES, TERMINAL_TYPES, JsonObject, JsonValue, RunCompleted, RunFailed
from bollard.wire import encode

_FAILURE_FIELDS: Final = frozenset({"code", "error", "retryable"})
_FINISH_REASON: Final = "end"
_EXECUTE: Final[frozenset[Right]] = frozenset({"runs.execute"})


def run_tokens(runs: ExternalRuns) -> RunTokens:
    """Authenticates holders of the token of the run in the path. For other tokens the run does not exist."""

    def holder(token: str, run_id: str) -> Caller | HostError:
        workspace = runs.workspace_of(token, run_id)
        if workspace is None:
            return no_run()
        return Caller(workspace=workspace, kind="run", name=f"run:{run_id}", rights=_EXECUTE)

    return holder


_RUN: Final = "/api/v1/runs/{run_id}"


class ExternalExecution(DeclaredResource):
    """The operations of `/runs/{id}` for an external executor."""

    tag = "external runs"

    def __init__(
        self,
        *,
        runs: ExternalRuns,
        live: Mapping[str, LiveRun],
        store: Store,
        rows: RunRows,
        hidden: Scrubber | None = None,
    ) -> None:
        """`hidden` removes secrets before a comparison, because the stored data has none."""
        self._runs = runs
        self._live = live
        self._store = store
        self._rows = rows
        self._hidden = hidden
        self._watched: set[str] = set()

    async def token_of(self, accepted: Accepted) -> JsonObject:
        """A new token for a run that has begun; nothing for a run that waits or has ended."""
        run = self._live.get(accepted.run_id or "")
        if run is None or run.ending or not run.facts.external:
            return {}
        self._watch(run)
        token = self._runs.issue(run)
        return {"run_token": token} if await run.written() else {}

    @operation(
        f"POST {_RUN}/results",
        name="appendRunResults",
        summary="Send results of a run that an external program executes.",
        description="`sequence` counts 1, 2, 3 … over the whole run. A result may be repeated unchanged; other content "
        "under the same number is a conflict.",
        right="runs.execute",
        run_token=True,
        body=AppendResults,
        body_example={
            "results": [
                {"sequence": 1, "type": "message.delta", "data": {"chunk": {"role": "assistant", "content": "Hello"}}}
            ]
        },
        answers={200: answer("The results are on disk.", run_id="run_01", last_sequence=1)},
        errors=("not_found", "conflict"),
    )
    async def append(self, request: Request) -> Response:
        body = parsed(AppendResults, await read_body(request))
        run = await self._active(request)
        self._watch(run)
        results = [
            ExternalResult(sequence=each.sequence, type=each.type, data=each.data, size_bytes=len(encode(each.data)))
            for each in body.results
        ]
        last = await self._runs.append(run, results)
        return JsonAnswer({"run_id": run.facts.run_id, "last_sequence": last})

    @operation(
        f"POST {_RUN}/finalize",
        name="finalizeRun",
        summary="End a run that an external program executes.",
        description="Send `finish_reason` and `message` to complete the run, or `code`, `error` and `retryable` to "
        "fail it. A repeated request gets the same answer.",
        right="runs.execute",
        run_token=True,
        body=ANY,
        body_example={"finish_reason": "end"},
        answers={
            200: Answer(
                summary="The end of the run.",
                schema=fields({"code": TEXT, "error": TEXT}, run_id=TEXT, status=TEXT),
                example={"run_id": "run_01", "status": "completed"},
            )
        },
        errors=("not_found", "conflict"),
    )
    async def finalize(self, request: Request) -> Response:
        kind, data = _last_word(await read_body(request))
        run = self._live_run(request)
        if run is not None and not run.ending:
            self._watch(run)
            await self._runs.finalize(run, kind, data)
        elif run is not None:
            await asyncio.shield(run.done)  # another request ended the run first: compare with the end on disk
        return JsonAnswer(await self._ended(request, kind, data))

    def _live_run(self, request: Request) -> LiveRun | None:
        run = self._live.get(request.path_params["run_id"])
        return run if run is not None and run.facts.workspace == caller_of(request).workspace else None

    async def _active(self, request: Request) -> LiveRun:
        run = self._live_run(request)
        if run is not None:
            return run
        row = await self._row(request)
        if row.status in TERMINAL_STATUSES:
            raise Conflict(
                f"the run has ended: {row.status}", reason="run_ended", hint="read its records", status=row.status
            )
        raise _not_begun(row.status)

    async def _row(self, request: Request) -> RunRow:
        row = await self._rows.of(request)
        if not facts_of(row).external:
            raise Forbidden(
                "a worker executed this run",
                reason="run_of_worker",
                hint="only a run that was created for an external program takes results",
            )
        return row

    async def _ended(self, request: Request, kind: str, data: JsonObject) -> JsonObject:
        """The end of the run if this body caused it. Raises `Conflict` if the run ended differently."""
        row = await self._row(request)
        if row.status not in TERMINAL_STATUSES:
            raise _not_begun(row.status)
        answer, ending = await asyncio.to_thread(self._last_records, row.run_id)
        if answer is None or answer.type != kind or self._shown(data_of(answer)) != self._shown(data):
            raise Conflict(
                f"the run has ended with another result: {row.status}",
                reason="run_ended_otherwise",
                hint="read its records",
                status=row.status,
            )
        return {"run_id": row.run_id, **ending}

    def _shown(self, data: JsonObject) -> JsonValue:
        return data if self._hidden is None else self._hidden.value(data)

    def _last_records(self, run_id: str) -> tuple[RecordRow | None, JsonObject]:
        """The terminal result of a run, and the data of its `run.ended`."""
        answer: RecordRow | None = None
        ending: JsonObject = {}
        after = 0
        while rows := self._store.records_of_run(run_id, after, REPLAY_PAGE):
            for row in rows:
                if row.type in TERMINAL_TYPES:
                    answer = row
                elif row.type == "run.ended":
                    ending = data_of(row)
            after = rows[-1].seq or 0
        return answer, ending

    def _watch(self, run: LiveRun) -> None:
        """Forget the numbers of a run's results when the run ends."""
        run_id = run.facts.run_id
        if run_id not in self._watched:
            self._watched.add(run_id)
            run.done.add_done_callback(lambda _: self._forget(run_id))

    def _forget(self, run_id: str) -> None:
        self._watched.discard(run_id)
        self._runs.forget(run_id)


def _last_word(body: JsonObject) -> tuple[str, JsonObject]:
    """The terminal result of a body: a failure if it has a field of a failure, otherwise a completion."""
    if _FAILURE_FIELDS & body.keys():
        parsed(RunFailed, body)
        return "run.failed", body
    data: JsonObject = {"finish_reason": _FINISH_REASON, **body}
    parsed(RunCompleted, data)
    return "run.completed", data


def _not_begun(status: str) -> Conflict:
    return Conflict(
        "the run has not started", reason="run_not_started", hint="it is queued; try again in a moment", status=status
    )
