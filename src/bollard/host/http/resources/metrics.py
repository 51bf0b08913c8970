"""`/metrics`: the host's metrics in the format of Prometheus."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Final

import msgspec
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from bollard.confine.cgroup import UNLIMITED, GroupLimits
from bollard.confine.worker_level import LEVELS, UNCONFINED, WorkerLevel
from bollard.host.audit.witness import WitnessNumbers
from bollard.host.clock import Clock
from bollard.host.core import Core
from bollard.host.delivery.outbox import Delivery
from bollard.host.delivery.sender import Counts
from bollard.host.errors import HostError
from bollard.host.http.auth.callers import Authenticator
from bollard.host.http.operations import Answer
from bollard.host.http.resources.declaration import DeclaredResource, operation
from bollard.host.identity.caller import DEFAULT_WORKSPACE, Caller
from bollard.host.limits import MIB
from bollard.host.log.journal import Journal
from bollard.host.telemetry.counts import HostCounts
from bollard.host.telemetry.prometheus import (
    CONTENT_TYPE,
    Family,
    ProcessNumbers,
    Sample,
    counter,
    gauge,
    histogram,
    process_numbers,
    render,
)
from bollard.host.telemetry.span_export import SpanQueue
from bollard.host.workers.bounds import bounds_of
from bollard.protocol import JsonObject, PluginSandbox

# Collects the metrics of a host: as a summary, and for Prometheus. Read-only.


class PoolVitals(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of the workers of one plugin in one workspace."""

    name: str
    status: str
    problem: str | None
    workers: int
    """Processes that are alive."""
    crashes: int
    """Workers that were lost since the start."""


class Confinement(msgspec.Struct, frozen=True, kw_only=True):
    """How programs and plugin workers of a host are confined."""

    programs: Callable[[], str] = lambda: "none"
    workers: WorkerLevel = UNCONFINED
    workspace: GroupLimits = UNLIMITED


class Vitals:
    """One per host."""

    def __init__(
        self,
        *,
        version: str,
        core: Core,
        journal: Journal,
        clock: Clock,
        counts: HostCounts,
        pools: Callable[[], Sequence[PoolVitals]],
        spans: SpanQueue | None = None,
        delivery: Delivery | None = None,
        witness: Callable[[], WitnessNumbers] = WitnessNumbers,
        confinement: Confinement = Confinement(),  # noqa: B008 -- frozen
    ) -> None:
        self._version = version
        self._core = core
        self._journal = journal
        self._clock = clock
        self._runs = counts.runs
        self._commits = counts.commits
        self._requests = counts.requests
        self._violations = counts.violations
        self._proxy = counts.proxy
        self._pools = pools
        self._spans = spans
        self._delivery = delivery
        self._witness = witness
        self._sandbox = confinement.programs
        self._worker_level = confinement.workers
        bounds = bounds_of(confinement.workers, PluginSandbox(), confinement.workspace)
        self._limits = {"worker": bounds.worker, "workspace": bounds.workspace}

    def summary(self) -> JsonObject:
        """A summary for operators of one host."""
        numbers = self._journal.numbers
        return {
            "version": self._version,
            "runs": {"live": len(self._core.dispatcher.live), "queued": self._core.dispatcher.backlog.size},
            "journal": {
                "commits": numbers.commits,
                "records": numbers.records,
                "failures": numbers.failures,
                "waiting": self._journal.waiting,
            },
            "readers": self._core.hub.readers,
            "sandbox": self._sandbox(),
            "worker_sandbox": {
                "level": self._worker_level.name,
                "demand": self._worker_level.demand,
                "problem": self._worker_level.problem or None,
                "problem_type": f"workers.{self._worker_level.missing}" if self._worker_level.missing else None,
                "limits": {scope: bounds.to_wire() for scope, bounds in self._limits.items()},
            },
            "plugins": {
                pool.name: {"status": pool.status, "problem": pool.problem, "workers": pool.workers}
                for pool in self._pools()
            },
        }

    def families(self) -> list[Family]:
        """Every metric of the host, without those of its process."""
        return [
            gauge("bollard_info", "The version that runs.", Sample(1, {"version": self._version})),
            *self._of_runs(),
            *self._of_calls(),
            *self._of_models(),
            *self._of_journal(),
            *self._of_workers(),
            *self._of_readers(),
            *self._of_delivery(),
            *self._of_witness(),
            *self._of_requests(),
        ]

    def _of_runs(self) -> list[Family]:
        dispatcher, runs = self._core.dispatcher, self._runs
        states = Counter(live.state.status for live in dispatcher.live.values())
        since = dispatcher.backlog.since_ms
        age_s = 0.0 if since is None else max(0.0, (self._clock.now_ms() - since) / 1000)
        ended = [Sample(n, {"status": status, "reason": reason}) for (status, reason), n in runs.ended.items()]
        denied = [Sample(n, {"code": code}) for code, n in runs.denied.items()]
        return [
            gauge("bollard_runs", "Runs that this host executes now.", *_by("state", states)),
            counter("bollard_runs_begun_total", "Runs that began here.", Sample(runs.begun)),
            counter("bollard_runs_ended_total", "Runs that ended here, by status and reason.", *ended),
            gauge("bollard_queue_runs", "Runs that wait.", Sample(dispatcher.backlog.size)),
            gauge(
                "bollard_queue_largest_share_runs",
                "Waiting runs in the fullest share of each kind.",
                *(Sample(count, {"share": kind}) for kind, count in dispatcher.backlog.shares.largest().items()),
            ),
            gauge("bollard_queue_age_seconds", "Age of the oldest waiting run.", Sample(age_s)),
            histogram(
                "bollard_first_delta_seconds", "Seconds from the start of a run to its first delta.", runs.first_delta
            ),
            counter("bollard_grant_denials_total", "Calls of the run API that were refused, by code.", *denied),
        ]

    def _of_calls(self) -> list[Family]:
        runs, approvals = self._runs, self._runs.approvals
        acted = [Sample(n, {"kind": kind, "outcome": status}) for (kind, status), n in runs.actions.items()]
        decided = Counter({each: approvals.get(f"approval.{each}", 0) for each in ("granted", "denied", "expired")})
        return [
            counter("bollard_actions_total", "Calls of capabilities, by kind and outcome.", *acted),
            counter(
                "bollard_approvals_asked_total", "Requested approvals.", Sample(approvals.get("approval.requested", 0))
            ),
            counter("bollard_approvals_decided_total", "Approvals that ended, by decision.", *_by("decision", decided)),
            gauge(
                "bollard_approvals_waiting",
                "Approvals that wait for a decision.",
                Sample(self._core.approvals.registry.waiting),
            ),
            counter(
                "bollard_retrievals_total",
                "Queries of knowledge bases, by outcome.",
                *_by("outcome", Counter(runs.retrievals)),
            ),
            histogram("bollard_retrieval_seconds", "Duration of a query of a knowledge base.", runs.retrieval_time),
            gauge("bollard_programs", "Programs that run in the sandbox now.", Sample(runs.programs_running)),
            counter(
                "bollard_programs_total",
                "Programs that ran in the sandbox, by outcome.",
                *_by("outcome", Counter(runs.programs)),
            ),
            counter(
                "bollard_records_lost_total",
                "Records of calls without effect that never reached the log.",
                Sample(runs.records_lost),
            ),
        ]

    def _of_models(self) -> list[Family]:
        asked = self._runs.models
        calls = [
            Sample(n, {"model": model, "operation": operation, "status": status})
            for (model, operation, status), n in asked.calls.items()
        ]
        tokens = [Sample(n, {"model": model, "direction": way}) for (model, way), n in asked.tokens.items()]
        cost = [Sample(n, {"model": model, "currency": currency}) for (model, currency), n in asked.cost.items()]
        errors = [Sample(n, {"reason": reason}) for reason, n in asked.errors.items()]
        return [
            counter("bollard_model_calls_total", "Calls of models, by status.", *calls),
            counter("bollard_model_tokens_total", "Tokens of models, estimated if the provider reports none.", *tokens),
            counter("bollard_model_cost_total", "Cost of models, by their prices.", *cost),
            counter("bollard_model_errors_total", "Calls of models that failed, by reason.", *errors),
            histogram(
                "bollard_model_seconds", "Seconds from the request to the end of a model's answer.", asked.latency
            ),
            histogram(
                "bollard_model_first_token_seconds",
                "Seconds from the request to a model's first token.",
                asked.first_token,
            ),
        ]

    def _of_journal(self) -> list[Family]:
        numbers = self._journal.numbers
        return [
            histogram("bollard_journal_batch_entries", "Entries that shared a commit.", self._commits.batch),
            histogram("bollard_journal_flush_seconds", "Duration of a commit.", self._commits.flush),
            counter("bollard_journal_records_total", "Records that were written.", Sample(numbers.records)),
            counter("bollard_journal_failures_total", "Failed commits.", Sample(numbers.failures)),
            counter("bollard_journal_retries_total", "Retried commits.", Sample(numbers.retries)),
            gauge("bollard_journal_waiting", "Entries that are not on disk yet.", Sample(self._journal.waiting)),
            gauge("bollard_disk_full", "1 while the disk is full.", Sample(int(self._journal.full))),
        ]

    def _of_limits(self) -> list[Family]:
        """The enforced limits of a worker that asks for nothing, and of a workspace. Unlimited ones have no sample."""
        scopes = self._limits.items()
        return [
            gauge(
                "bollard_worker_memory_limit_bytes",
                "Memory of one worker by default, and of all of a workspace together.",
                *(Sample(b.memory_mib * MIB, {"scope": scope}) for scope, b in scopes if b.memory_mib is not None),
            ),
            gauge(
                "bollard_worker_processors_limit",
                "Processors, likewise.",
                *(Sample(b.processors, {"scope": scope}) for scope, b in scopes if b.processors is not None),
            ),
            gauge(
                "bollard_worker_processes_limit",
                "Processes and threads, likewise.",
                *(Sample(b.processes, {"scope": scope}) for scope, b in scopes if b.processes is not None),
            ),
        ]

    def _of_workers(self) -> list[Family]:
        workers: Counter[str] = Counter()
        lost: Counter[str] = Counter()
        quarantined: Counter[str] = Counter()
        for pool in self._pools():  # one plugin may have workers in several workspaces
            workers[pool.name] += pool.workers
            lost[pool.name] += pool.crashes
            quarantined[pool.name] += pool.status == "quarantined"
        broken = [Sample(n, {"plugin": plugin, "kind": kind}) for (plugin, kind), n in sorted(self._violations.items())]
        proxy = self._proxy
        return [
            gauge("bollard_workers", "Worker processes, by plugin.", *_by("plugin", workers)),
            gauge(
                "bollard_worker_sandbox",
                "The level of confinement of workers; 1 for the level in use.",
                *(Sample(int(level == self._worker_level.name), {"level": level}) for level in LEVELS),
            ),
            *self._of_limits(),
            counter("bollard_worker_losses_total", "Workers that crashed or could not start.", *_by("plugin", lost)),
            gauge("bollard_plugins_quarantined", "Quarantined pools of a plugin.", *_by("plugin", quarantined)),
            counter("bollard_worker_violations_total", "Violations of the protocol by workers, by kind.", *broken),
            gauge("bollard_worker_connections", "Open connections of workers to the outside.", Sample(proxy.active)),
            counter(
                "bollard_worker_connections_total",
                "Connections of workers to the outside that ended or were refused, by outcome.",
                *_by("outcome", proxy.ended),
            ),
            counter(
                "bollard_worker_connection_bytes_total",
                "Bytes of these connections that workers sent and received.",
                *_by("direction", proxy.bytes),
            ),
        ]

    def _of_readers(self) -> list[Family]:
        hub, spans = self._core.hub, self._spans
        sent, dropped = (0, 0) if spans is None else (spans.sent, spans.dropped)
        return [
            gauge("bollard_readers", "Readers of streams of runs.", Sample(hub.readers)),
            counter("bollard_readers_cut_total", "Readers that fell behind and were cut.", Sample(hub.cut)),
            counter("bollard_spans_sent_total", "Spans that the collector accepted.", Sample(sent)),
            counter("bollard_spans_dropped_total", "Spans that were dropped.", Sample(dropped)),
        ]

    def _of_delivery(self) -> list[Family]:
        delivery = self._delivery
        waiting = 0 if delivery is None else delivery.waiting
        counts = Counts() if delivery is None else delivery.counts
        outcomes = Counter({"sent": counts.sent, "failed": counts.failed, "unknown": counts.unknown})
        return [
            gauge("bollard_outbox_waiting", "Messages that wait to be delivered.", Sample(waiting)),
            counter("bollard_deliveries_total", "Deliveries to channels, by outcome.", *_by("outcome", outcomes)),
        ]

    def _of_witness(self) -> list[Family]:
        numbers = self._witness()
        down_s = (self._clock.now_ms() - numbers.down_since_ms) / 1000 if numbers.down else 0.0
        return [
            counter("bollard_witness_heads_total", "Signed heads that the witness accepted.", Sample(numbers.heads)),
            counter(
                "bollard_witness_failures_total", "Heads that the witness did not accept.", Sample(numbers.failures)
            ),
            gauge("bollard_witness_down", "1 while the witness does not accept heads.", Sample(int(numbers.down))),
            gauge("bollard_witness_lag_seconds", "Seconds for which it has accepted none.", Sample(max(0.0, down_s))),
        ]

    def _of_requests(self) -> list[Family]:
        asked = [Sample(n, {"operation": name, "class": kind}) for name, kind, n in self._requests.all()]
        return [counter("bollard_http_requests_total", "Requests by operation and class of status.", *asked)]


def process_families(numbers: ProcessNumbers) -> list[Family]:
    """Resource usage of the host's process, under the names that all exporters use."""
    found = [
        counter("process_cpu_seconds_total", "CPU time of the host's process.", Sample(numbers.cpu_s)),
        gauge("process_max_fds", "Files that it may have open.", Sample(numbers.most_files)),
    ]
    if numbers.resident_bytes is not None:
        found.append(gauge("process_resident_memory_bytes", "Its memory.", Sample(numbers.resident_bytes)))
    if numbers.open_files is not None:
        found.append(gauge("process_open_fds", "Files that it has open.", Sample(numbers.open_files)))
    return found


def _by(label: str, counted: Counter[str]) -> list[Sample]:
    return [Sample(count, {label: name}) for name, count in sorted(counted.items())]


PATH: Final = "/metrics"
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-real-ip")
"""Headers of a proxy. A request that has one may come from another machine."""


class Metrics(DeclaredResource):
    """Collects the metrics on request."""

    tag = "host"

    def __init__(self, vitals: Vitals) -> None:
        self._vitals = vitals

    @operation(
        f"GET {PATH}",
        name="readMetrics",
        summary="Read the host's metrics, in the text format of Prometheus.",
        right="metrics.read",
        answers={
            200: Answer(
                summary="Every metric; see docs/reference/metrics.md.",
                schema={"type": "string"},
                example="# TYPE bollard_queue_runs gauge\nbollard_queue_runs 0\n",
                media_type="text/plain",
            )
        },
    )
    async def read(self, request: Request) -> Response:
        del request
        process = await asyncio.to_thread(process_numbers)  # it lists open files, so it does not run on the loop
        text = render([*self._vitals.families(), *process_families(process)])
        return Response(text, headers={"content-type": CONTENT_TYPE})


class OpenMetrics:
    """An authenticator that also lets a scraper on this machine read metrics, and nothing else, without a token."""

    def __init__(self, behind: Authenticator) -> None:
        self._behind = behind
        self._scraper = Caller(
            workspace=DEFAULT_WORKSPACE, kind="installation", name="scraper", rights=frozenset({"metrics.read"})
        )

    def authenticate(self, connection: HTTPConnection) -> Caller | HostError:
        if connection.scope["path"] == PATH and _is_scraper(connection):
            return self._scraper
        return self._behind.authenticate(connection)


def _is_scraper(connection: HTTPConnection) -> bool:
    headers, client = connection.headers, connection.client
    if client is None or "authorization" in headers or any(name in headers for name in _FORWARDED):
        return False
    try:
        return ip_address(client.host).is_loopback
    except ValueError:
        return False
