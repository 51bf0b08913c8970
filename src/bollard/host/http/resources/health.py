"""`/healthz`, `/readyz` and draining, and the parts that operators watch: metrics, traces and readiness."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from bollard.confine.order import WORKER_DEMANDS
from bollard.confine.worker_level import LEVELS, UNCONFINED, WorkerLevel
from bollard.host.audit.witness import WitnessNumbers
from bollard.host.clock import Clock
from bollard.host.core import Core
from bollard.host.delivery.outbox import Delivery
from bollard.host.dial import Dial
from bollard.host.errors import HostError, StorageFull, caused_by
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import Authenticator, caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.schemas import (
    ANY,
    FLAG,
    GROUP_BOUNDS,
    NUMBER,
    TEXT,
    array_of,
    choice,
    fields,
    map_of,
    maybe,
    named,
)
from bollard.host.http.operations import Answer, Resource
from bollard.host.http.request_log import RequestWatch
from bollard.host.http.resources.declaration import DeclaredResource, answer, operation
from bollard.host.http.resources.metrics import Confinement, Metrics, OpenMetrics, PoolVitals, Vitals
from bollard.host.identity.caller import Caller
from bollard.host.limits import READY_KEPT_S, READY_PROBE_S
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.runs.dispatcher import Dispatcher
from bollard.host.settings import Settings
from bollard.host.store.migrations import REVISIONS
from bollard.host.store.store import Store
from bollard.host.telemetry.counts import HostCounts
from bollard.host.telemetry.span_export import span_export
from bollard.host.telemetry.tracer import Tracer
from bollard.host.workers.bounds import workspace_limits
from bollard.protocol import Flag, JsonObject, JsonValue, Strict

_SILENCE: Final[JsonObject] = {
    "problem": f"no answer within {READY_PROBE_S:g} s",
    "problem_type": "host.silent",
    "seconds": READY_PROBE_S,
}


class Reason(msgspec.Struct, frozen=True):
    """A reason why the host is not ready: a code for programs, a message and a hint for people."""

    code: str
    message: str
    hint: str
    details: Mapping[str, JsonValue] = {}
    """Fields of the message. `problem_details` adds the type by which a translation is found."""

    @property
    def problem_details(self) -> JsonObject:
        return {"problem_type": f"host.{self.code}", **self.details}


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True):
    """The results of the probes of journal and store, as problems with details. `None` means no problem."""

    journal: JsonObject | None = None
    disk_full: bool = False
    store: JsonObject | None = None
    revision: str | None = REVISIONS.known[-1]
    silent: tuple[str, ...] = ()
    """The parts that did not answer: `journal`, `store`."""


class HostStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The host's knowledge of its own state."""

    started: bool
    broken: bool
    """Whether the journal process is gone, so that the host must stop."""
    draining: bool
    recovered: bool
    """Whether every run of an earlier incarnation has an end or an owner."""


def reasons_of(standing: HostStatus, probed: ProbeResult) -> list[Reason]:
    """All reasons why the host accepts no work. Pure."""
    found: list[Reason] = []
    if standing.broken:
        found.append(Reason("journal_lost", "the journal process is gone", "the host stops; start it again"))
    elif not standing.started:
        found.append(Reason("starting", "the host is starting or stopping", "ask again in a moment"))
    if standing.draining:
        found.append(Reason("draining", "the host accepts no new work", "send work to another host, or later"))
    if not standing.recovered:
        found.append(Reason("recovering", "runs of an earlier start are being ended", "ask again in a moment"))
    if probed.disk_full:
        found.append(
            Reason("disk_full", "the disk is full, so no new work is accepted", "free space in the data directory")
        )
    elif probed.journal is not None:
        found.append(_failed("journal", "the log cannot be written", probed.journal))
    if probed.store is not None:
        found.append(_failed("store", "the store cannot be read", probed.store))
    elif probed.revision != (known := REVISIONS.known[-1]):
        message = f"the schema is {probed.revision}, this version works with {known}"
        hint = "another version has changed the database: restart with that one"
        found.append(Reason("schema", message, hint, {"found": str(probed.revision), "known": known}))
    return found


def _failed(code: str, what: str, inner: JsonObject) -> Reason:
    return Reason(code, f"{what}: {inner['problem']}", "look at the disk or the database", {"inner": inner})


class Readiness:
    """One per host."""

    def __init__(
        self,
        standing: Callable[[], HostStatus],
        journal: Journal,
        store: Store,
        clock: Clock,
        witness: Callable[[], WitnessNumbers] = WitnessNumbers,
        worker_level: WorkerLevel | None = None,
    ) -> None:
        self._witness = witness
        self._worker_level = worker_level
        self._standing = standing
        self._journal = journal
        self._store = store
        self._clock = clock
        self._probing: asyncio.Task[ProbeResult] | None = None
        self._probed_at = 0.0

    def warnings(self) -> list[Reason]:
        """Problems of a host that is ready."""
        found: list[Reason] = []
        numbers = self._witness()
        if numbers.down:
            hint = "check the location in the setting `witness`; the log continues"
            inner: JsonObject = {"problem": numbers.problem}
            message = f"the witness does not accept heads: {numbers.problem}"
            found.append(Reason("witness_down", message, hint, {"inner": inner}))
        level = self._worker_level
        if level is not None and level.name == "none":
            problem = level.problem or "the setting worker_sandbox is none"
            hint = "look at `bollard doctor`; until then install only plugins that you trust"
            inner = {"problem": problem, "problem_type": f"workers.{level.missing or 'none'}"}
            message = f"plugin workers are not confined: {problem}"
            found.append(Reason("workers_unconfined", message, hint, {"inner": inner}))
        elif level is not None and level.missing:
            message = (
                f"plugin workers are confined at the level {level.name}, which is not the full one: {level.problem}"
            )
            inner = {"problem": level.problem, "problem_type": f"workers.{level.missing}"}
            details: JsonObject = {"level": level.name, "inner": inner}
            found.append(Reason("workers_partly_confined", message, level.hint, details))
        return found

    async def reasons(self) -> list[Reason]:
        """The reasons why the host is not ready; empty if it is."""
        standing = self._standing()
        if standing.broken or not standing.started:
            return reasons_of(standing, ProbeResult())  # no component is up yet
        probed = await self._probe()
        return reasons_of(self._standing(), probed)

    async def silent(self) -> tuple[str, ...]:
        """The parts that do not answer now: `journal`, `store`."""
        standing = self._standing()
        return () if standing.broken or not standing.started else (await self._probe()).silent

    async def _probe(self) -> ProbeResult:
        now = self._clock.monotonic()
        if self._probing is None or (self._probing.done() and now - self._probed_at >= READY_KEPT_S):
            self._probed_at = now
            self._probing = asyncio.create_task(self._ask())
        return await asyncio.shield(self._probing)

    async def _ask(self) -> ProbeResult:
        (journal, full), (store, revision) = await asyncio.gather(self._ask_journal(), self._ask_store())
        silent = tuple(name for name, state in (("journal", journal), ("store", store)) if state is _SILENCE)
        return ProbeResult(journal=journal, disk_full=full, store=store, revision=revision, silent=silent)

    async def _ask_journal(self) -> tuple[JsonObject | None, bool]:
        """Commit an empty entry through the journal."""
        problem: JsonObject | None = None
        try:
            await asyncio.wait_for(self._journal.commit(Entry()), READY_PROBE_S)
        except TimeoutError:
            problem = _SILENCE
        except StorageFull as error:
            return {**caused_by(error)}, True
        except HostError as error:
            problem = {**caused_by(error)}
        return problem, self._journal.full

    async def _ask_store(self) -> tuple[JsonObject | None, str | None]:
        try:
            return None, await asyncio.wait_for(asyncio.to_thread(self._store.revision), READY_PROBE_S)
        except TimeoutError:
            return _SILENCE, None
        except HostError as error:
            return {**caused_by(error)}, None


_log = structlog.get_logger("bollard.host")


class Drain(Strict):
    """`POST /api/v1/host/drain`."""

    draining: Flag = True


class DrainControl(DeclaredResource):
    """Drains the host before a restart."""

    tag = "host"

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    @operation(
        "POST /api/v1/host/drain",
        name="drainHost",
        summary="Stop accepting work, or accept work again. `/readyz` reports it.",
        description="Active runs continue, waiting runs stay on disk, and new events get the error `draining`.",
        right="host.operate",
        body=Drain,
        body_example={"draining": True},
        answers={
            200: answer(
                "How it stands now: runs that go on, and runs that wait on disk.", draining=True, live=2, queued=0
            )
        },
    )
    async def change(self, request: Request) -> Response:
        asked = parsed(Drain, await read_body(request))
        self._dispatcher.drain(asked.draining)
        _log.info("draining" if asked.draining else "taking work again", by=caller_of(request).name)
        queued, live = self._dispatcher.backlog.size, len(self._dispatcher.live)
        return JsonAnswer({"draining": self._dispatcher.draining, "live": live, "queued": queued})


# `/healthz` and `/readyz` are open and cheap. Details are for callers with the right.


_DETAIL: Final[JsonObject] = {
    "version": TEXT,
    "runs": fields(live=NUMBER, queued=NUMBER),
    "journal": fields(commits=NUMBER, records=NUMBER, failures=NUMBER, waiting=NUMBER),
    "readers": NUMBER,
    "sandbox": TEXT,
    "worker_sandbox": fields(
        level=choice(*LEVELS),
        demand=choice(*WORKER_DEMANDS),
        problem=maybe(TEXT),
        problem_type=maybe(TEXT),
        limits=fields(worker=fields(**GROUP_BOUNDS), workspace=fields(**GROUP_BOUNDS)),
    ),
    "plugins": map_of(fields(status=TEXT, problem=maybe(TEXT), workers=NUMBER)),
}
_REASONS: Final = array_of(fields({"problem_details": ANY}, code=TEXT, message=TEXT, hint=TEXT))
_READY: Final = named("Readiness", fields({**_DETAIL, "warnings": _REASONS}, ready=FLAG, reasons=_REASONS))
_DRAINING: Final[JsonObject] = {
    "code": "draining",
    "message": "the host accepts no new work",
    "hint": "send work to another host, or later",
}


class Health(DeclaredResource):
    """Reports liveness and readiness."""

    tag = "host"

    def __init__(
        self, readiness: Readiness, summary: Callable[[], JsonObject], authenticator: Authenticator, *, public: bool
    ) -> None:
        """On a `public` host, the details are for callers who may read metrics."""
        self._readiness = readiness
        self._summary = summary
        self._authenticator = authenticator
        self._public = public

    @operation(
        "GET /healthz",
        name="getHealth",
        summary="Check whether the process answers.",
        open=True,
        answers={200: Answer(summary="It does.", schema=TEXT, example="ok", media_type="text/plain")},
    )
    async def alive(self, request: Request) -> Response:
        del request
        return PlainTextResponse("ok")

    @operation(
        "GET /readyz",
        name="getReadiness",
        summary="Check whether the host accepts work, and why not.",
        open=True,
        answers={
            200: Answer(summary="It can.", schema=_READY, example={"ready": True, "reasons": []}),
            503: Answer(
                summary="The host accepts no work, with the reasons.",
                schema=_READY,
                example={"ready": False, "reasons": [_DRAINING]},
            ),
        },
    )
    async def ready(self, request: Request) -> Response:
        reasons = await self._readiness.reasons()
        body: JsonObject = {"ready": not reasons, "reasons": [_told(reason) for reason in reasons]}
        if self._may_know(request):
            body |= self._summary()
            if warnings := self._readiness.warnings():
                body["warnings"] = [_told(each) for each in warnings]
        return JsonAnswer(body, status_code=503 if reasons else 200)

    def _may_know(self, request: Request) -> bool:
        if not self._public:
            return True
        caller = self._authenticator.authenticate(request)
        return isinstance(caller, Caller) and caller.may("metrics.read")


def _told(reason: Reason) -> JsonObject:
    details = reason.problem_details
    return {"code": reason.code, "message": reason.message, "hint": reason.hint, "problem_details": details}


class OperationParts:
    """Metrics, traces and readiness. The counters and the tracer are created before the host, the resources with it."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        *,
        version: str,
        instance: str,
        environment: Mapping[str, str],
        dial: Dial,
    ) -> None:
        """`environment` may describe the collector of traces, and `dial` connects to it. Raises
        `SettingsError` for invalid settings of the export."""
        self._settings = settings
        self._clock = clock
        self._version = version
        self._export = span_export(
            settings.otel_endpoint, version=version, instance=instance, environment=environment, dial=dial
        )
        keep = None if self._export is None else self._export.queue.put
        self.counts = HostCounts()
        self.tracer = Tracer(clock, keep, settings.otel_ratio)
        self.watch = RequestWatch(self.counts.requests, self.tracer, clock, access_log=settings.access_log)

    def start(self) -> None:
        if self._export is not None:
            self._export.start()

    def close(self) -> None:
        """Send the last spans. Blocks for a moment."""
        if self._export is not None:
            self._export.close()

    def admitting(self, authenticator: Authenticator) -> Authenticator:
        """The authenticator; with `metrics_open` also a scraper on this machine."""
        return OpenMetrics(authenticator) if self._settings.metrics_open else authenticator

    def resources(
        self,
        *,
        core: Core,
        journal: Journal,
        authenticator: Authenticator,
        readiness: Readiness,
        pools: Callable[[], Sequence[PoolVitals]],
        delivery: Delivery | None = None,
        witness: Callable[[], WitnessNumbers] = WitnessNumbers,
        sandbox: Callable[[], str] = lambda: "none",
        worker_level: WorkerLevel = UNCONFINED,
    ) -> list[Resource]:
        """The resources of the API for operators."""
        vitals = Vitals(
            version=self._version,
            core=core,
            journal=journal,
            clock=self._clock,
            counts=self.counts,
            pools=pools,
            spans=None if self._export is None else self._export.queue,
            delivery=delivery,
            witness=witness,
            confinement=Confinement(programs=sandbox, workers=worker_level, workspace=workspace_limits(self._settings)),
        )
        settings = self._settings
        public = bool(settings.origins or settings.tls_cert or settings.trusted_proxies)
        return [
            Health(readiness, vitals.summary, authenticator, public=public),
            Metrics(vitals),
            DrainControl(core.dispatcher),
        ]
