"""`/runs/{run_id}/calls`: the tool calls of a run and their outcomes."""

import asyncio
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.http.openapi.schemas import ANY, FLAG, NUMBER, TEXT, TIME, array_of, choice
from bollard.host.http.operations import PAGE
from bollard.host.http.queries import Pages, page_limit
from bollard.host.http.resources.declaration import DeclaredResource, answer_body, operation, seconds
from bollard.host.http.resources.run_rows import RunRows
from bollard.host.store.action_rows import ToolCallRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

_CALL: Final = answer_body(
    "RunCall",
    {
        "call_id": "call_1",
        "capability": "tool:builtin/now",
        "name": "now",
        "effects": "none",
        "status": "completed",
        "arguments_sha256": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
        "flow": 0,
        "started_at": 1767225600.0,
        "ended_at": 1767225600.0,
        "duration_ms": 0.4,
        "content": [{"type": "text", "text": "2026-01-01T00:00:00Z"}],
    },
    {
        "ended_at": TIME,
        "approval_id": TEXT,
        "code": TEXT,
        "message": TEXT,
        "is_error": FLAG,
        "duration_ms": {"type": "number"},
        "result_sha256": TEXT,
        "size": NUMBER,
        "content": array_of(ANY),
        "structured": {},
        "artifact_refs": array_of(ANY),
    },
    status=choice("started", "completed", "failed", "rejected", "unknown"),
)

_RESULT_FIELDS: Final = (
    *("code", "message", "is_error", "duration_ms", "result_sha256", "size"),
    *("content", "structured", "artifact_refs"),
)
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class RunCalls(DeclaredResource):
    """Lists tool calls, for callers who may see the run."""

    tag = "runs"

    def __init__(self, store: Store, rows: RunRows, pages: Pages) -> None:
        self._store = store
        self._rows = rows
        self._pages = pages

    @operation(
        "GET /api/v1/runs/{run_id}/calls",
        name="listRunCalls",
        summary="List the calls of capabilities that a run made, oldest first.",
        description="The calls as the host observed them, with secrets redacted. An `unknown` call was started, but "
        "its outcome is not known. `flow` has the bits of the run at that time: 1 private data, 2 untrusted "
        "content, 4 data sent out.",
        right="runs.read",
        query=PAGE,
        answers={200: _CALL.page("calls")},
        errors=("not_found",),
    )
    async def list(self, request: Request) -> Response:
        row = await self._rows.of(request)
        purpose = f"runs.calls/{row.run_id}"
        after = self._pages.numbered(request, purpose) or 0
        rows = await asyncio.to_thread(self._store.tool_calls, row.run_id, after, page_limit(request) + 1)
        return self._pages.of_rows(request, purpose, rows, call_body, lambda found: found.record_id)


def call_body(row: ToolCallRow) -> JsonObject:
    """One call in an answer."""
    result = {} if row.result is None else _decode(row.result)
    return _CALL.of(
        row,
        ended_at=seconds(row.ended_ms),
        approval_id=row.approval_id,
        **{name: result.get(name) for name in _RESULT_FIELDS},
    )
