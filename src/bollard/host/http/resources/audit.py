"""`/audit`: the log as evidence, with its signed heads, for callers who may read all of it."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final, Protocol, cast, get_args

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bollard.host.audit.heads import HeadLine
from bollard.host.audit.queries import AuditFilter, all_of, page_of_log, write_first
from bollard.host.audit.severity import SEVERITIES, Severity
from bollard.host.audit.verification import VerificationState, VerificationStatus
from bollard.host.audit.view import RunContext, actor_of, audited
from bollard.host.clock import Clock
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.openapi.schemas import ANY, FLAG, NUMBER, TEXT, TIME, array_of, choice, fields, map_of, maybe
from bollard.host.http.operations import PAGE, Answer, QueryField
from bollard.host.http.queries import CREATED, Pages, created_between, page_limit
from bollard.host.http.resources.declaration import DeclaredResource, answer_body, operation, seconds
from bollard.host.log.journal import Journal
from bollard.host.log.records import RunFacts, data_of
from bollard.host.store.queries import EVER_MS
from bollard.host.store.rows import RecordRow, RunRow
from bollard.host.store.store import Store
from bollard.host.telemetry.tracer import trace_of_run
from bollard.protocol import JsonObject
from bollard.trust.keys import VerifyKey
from bollard.wire import encode

_LINES: Final = "application/x-ndjson"
_HEADS: Final = 200
"""Chains whose newest head is shown: one for each start of the host."""
_OPTIONAL: Final[JsonObject] = {
    "data_dropped": FLAG,
    "seq": NUMBER,
    "run_id": TEXT,
    "actor": TEXT,
    "runner": TEXT,
    "agent": TEXT,
    "subject": TEXT,
    "outcome": TEXT,
    "duration_ms": {"type": "number"},
    "trace_id": TEXT,
    "capability": fields(
        {"kind": TEXT, "source": TEXT, "version": TEXT, "risk": TEXT, "effects": TEXT, "definition_sha256": TEXT},
        id=TEXT,
    ),
    "digests": map_of(TEXT),
    "arguments": ANY,
}
_RECORD: Final = answer_body(
    "AuditedRecord",
    {
        "id": 42,
        "chain": "19a2b3c4d5e0f1a2b3c",
        "position": 42,
        "at": 1790000000.0,
        "type": "login.failed",
        "severity": "warning",
        "workspace": "default",
        "observed": True,
        "data_sha256": "0" * 64,
        "hash": "0" * 64,
        "actor": "ann",
    },
    _OPTIONAL,
    at=TIME,
    severity=choice(*SEVERITIES),
)
_HEAD: Final = answer_body(
    "SignedHead",
    {
        "workspace": "default",
        "chain": "19a2b3c4d5e0f1a2b3c",
        "position": 42,
        "hash": "0" * 64,
        "created_ms": 1790000000000,
        "key_id": "0" * 16,
        "signature": "0" * 128,
    },
)
_FILTERS: Final = (
    QueryField(name="type", summary="Only these types of records, separated by commas.", example="login.failed"),
    QueryField(name="severity", summary="Only records of this severity or above.", choices=SEVERITIES),
    QueryField(name="run_id", summary="Only records of this run.", example="run_1"),
    *CREATED,
)
_ACTOR: Final = QueryField(name="actor", summary="Only actions of this actor, as records name it.", example="user:ann")
_facts: Final = msgspec.json.Decoder(RunFacts).decode


class Verifier(Protocol):
    """Verifies the log in the background."""

    @property
    def status(self) -> VerificationStatus: ...

    def start(self) -> VerificationStatus: ...


_VERIFICATION: Final = answer_body(
    "LogVerification",
    {
        "state": "verified",
        "started_at": 1790000000.0,
        "ended_at": 1790000002.5,
        "done": 4200,
        "total": 4200,
        "unsigned": 3,
        "witnessed": True,
        "problem_count": 0,
        "problems": [],
        "failure": "",
    },
    state=choice(*get_args(VerificationState)),
    started_at=maybe(TIME),
    ended_at=maybe(TIME),
    problems=array_of(fields(kind=TEXT, chain=TEXT, position=NUMBER, detail=TEXT)),
)


def _verification(found: VerificationStatus, workspace: str) -> JsonObject:
    """Problems of other workspaces are counted, and not shown."""
    mine = [each for each in found.problems if each.workspace in (workspace, "")]
    problems: list[JsonObject] = [
        {"kind": each.kind, "chain": each.chain, "position": each.position, "detail": each.detail} for each in mine
    ]
    return _VERIFICATION.of(
        found,
        started_at=seconds(found.started_ms),
        ended_at=seconds(found.ended_ms),
        problem_count=len(found.problems),
        problems=[*problems],
    )


class Audit(DeclaredResource):
    """Reads the log for auditors."""

    tag = "audit"

    def __init__(
        self, *, store: Store, journal: Journal, clock: Clock, pages: Pages, key: VerifyKey, verifier: Verifier
    ) -> None:
        self._verifier = verifier
        self._store = store
        self._journal = journal
        self._clock = clock
        self._pages = pages
        self._key = key

    @operation(
        "GET /api/v1/audit",
        name="listAudit",
        summary="List the records of the workspace as evidence, newest first.",
        description="A page may be shorter than its limit, even empty, and still have a `next_cursor`, because the "
        "number of records that are read for one page is limited.",
        right="audit.read",
        query=(*PAGE, *_FILTERS, _ACTOR),
        answers={200: _RECORD.page("records")},
    )
    async def list(self, request: Request) -> Response:
        wanted, actor = _filter(request), request.query_params.get("actor")
        purpose = encode(["audit.list", request.query_params.get("type"), wanted.severity, wanted.run_id]).decode()
        before = self._pages.numbered(request, purpose)

        def read() -> tuple[list[JsonObject], int | None]:
            page, runs = page_of_log(self._store, wanted, before, page_limit(request)), _Runs(self._store)
            pairs = [(row, runs.of(row)) for row in page.rows]
            return [audited(row, run) for row, run in pairs if actor in (None, actor_of(row, run))], page.before

        items, behind = await asyncio.to_thread(read)
        return self._pages.answer(request, purpose, items, behind)

    @operation(
        "GET /api/v1/audit/export",
        name="exportAudit",
        summary="Export the records as JSON lines, oldest first. The log records the caller before the first line is "
        "sent.",
        right="audit.export",
        query=_FILTERS,
        answers={
            200: Answer(
                summary="One record per line.",
                schema=TEXT,
                example=encode(_RECORD.example).decode() + "\n",
                media_type=_LINES,
            )
        },
        errors=("audit_unavailable", "storage_full"),
    )
    async def export(self, request: Request) -> Response:
        wanted, caller = _filter(request), caller_of(request)
        up_to = await asyncio.to_thread(self._store.last_record)
        chosen: JsonObject = dict(request.query_params.items())
        details: JsonObject = {"by": caller.name, "up_to": up_to, "chosen": chosen}
        await write_first(self._journal, self._clock, caller.workspace, "audit.exported", details)
        headers = {"content-disposition": f'attachment; filename="audit-{up_to}.jsonl"'}
        return StreamingResponse(self._lines(wanted, up_to), headers=headers, media_type=_LINES)

    async def _lines(self, wanted: AuditFilter, up_to: int) -> AsyncGenerator[bytes]:
        pages, runs = all_of(self._store, wanted, up_to), _Runs(self._store)

        def read() -> bytes | None:
            rows = next(pages, None)
            return None if rows is None else b"".join(encode(audited(row, runs.of(row))) + b"\n" for row in rows)

        while (lines := await asyncio.to_thread(read)) is not None:
            yield lines

    @operation(
        "GET /api/v1/audit/heads",
        name="getHeads",
        summary="List the newest signed heads of the workspace's chains, and the current signing key.",
        right="audit.read",
        answers={
            200: Answer(
                summary="Signed heads, newest first.",
                schema=fields(items=array_of(_HEAD.schema), public_key=TEXT, key_id=TEXT),
                example={"items": [_HEAD.example], "public_key": "0" * 64, "key_id": "0" * 16},
            )
        },
    )
    async def heads(self, request: Request) -> Response:
        workspace = caller_of(request).workspace
        rows = await asyncio.to_thread(self._store.newest_heads, workspace, EVER_MS, _HEADS)
        items = [cast("JsonObject", msgspec.to_builtins(HeadLine.of(row))) for row in rows]
        return JsonAnswer({"items": [*items], "public_key": self._key.public.hex(), "key_id": self._key.key_id})

    @operation(
        "GET /api/v1/audit/verification",
        name="getLogVerification",
        summary="Show the newest verification of the log: whether every record is unchanged, and up to which.",
        description="`state` is `never` since the start of the host, `running` (`done` of `total` records), "
        "`verified`, `broken`, or `failed` if the log could not be read. The verification covers all workspaces; "
        "`problems` are those of this one.",
        right="audit.read",
        answers={200: _VERIFICATION.answer("The verification.")},
    )
    async def verification(self, request: Request) -> Response:
        return JsonAnswer(_verification(self._verifier.status, caller_of(request).workspace))

    @operation(
        "POST /api/v1/audit/verification",
        name="verifyLog",
        summary="Verify the log in the background.",
        description="Every link of every chain is checked against the signed heads, the witness and the archive, as "
        "`bollard audit verify --log-only` does. One verification runs at a time.",
        right="host.operate",
        answers={202: _VERIFICATION.answer("The verification has begun.")},
        errors=("conflict",),
    )
    async def verify(self, request: Request) -> Response:
        return JsonAnswer(_verification(self._verifier.start(), caller_of(request).workspace), status_code=202)


def _filter(request: Request) -> AuditFilter:
    types, query = request.query_params.get("type"), request.query_params
    since_ms, until_ms = created_between(request)
    return AuditFilter(
        workspace=caller_of(request).workspace,
        types=None if types is None else frozenset(types.split(",")),
        severity=cast("Severity | None", query.get("severity")),
        run_id=query.get("run_id"),
        since_ms=since_ms,
        until_ms=until_ms,
    )


class _Runs:
    """The constant facts about the runs of some records. Each run is looked up once. Blocks."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, RunContext] = {}

    def of(self, row: RecordRow) -> RunContext:
        run_id = row.run_id
        if run_id is None:
            return RunContext()
        if run_id not in self._known:
            if len(self._known) >= 1000:  # an export can have any size
                self._known.clear()
            run = self._store.run(run_id)
            self._known[run_id] = RunContext() if run is None else self._context(run)
        return self._known[run_id]

    def _context(self, run: RunRow) -> RunContext:
        facts = _facts(run.facts)
        actor = None if facts.actor_id is None else f"{facts.actor_type}:{facts.actor_id}"
        event = self._store.event(run.workspace, run.event_id)
        received = [] if event is None else self._store.records(event.record_id - 1, 1)
        parent = data_of(received[0]).get("traceparent") if received else None
        trace = trace_of_run(run.run_id, parent if isinstance(parent, str) else None, recorded=False)
        return RunContext(actor=actor, runner=facts.runner_id, agent=facts.agent_id, trace_id=trace.context.trace_id)
