"""What operators watch and turn, put together: numbers, traces, readiness, draining. The composition root has one."""

from collections.abc import Callable, Mapping, Sequence

from bollard.host.audit.witness import WitnessNumbers
from bollard.host.clock import Clock
from bollard.host.core import Core
from bollard.host.delivery.outbox import Delivery
from bollard.host.http.auth.callers import Authenticator
from bollard.host.http.operations import Resource
from bollard.host.http.request_log import RequestWatch
from bollard.host.http.resources.health import DrainControl, Health, Readiness
from bollard.host.http.resources.metrics import Metrics, OpenMetrics, PoolVitals, Vitals
from bollard.host.log.journal import Journal
from bollard.host.settings import Settings
from bollard.host.telemetry.counts import HostCounts
from bollard.host.telemetry.span_export import span_export
from bollard.host.telemetry.tracer import Tracer


class OperationParts:
    """The parts that count and trace exist before the host does; the rest is made of it."""

    def __init__(
        self, settings: Settings, clock: Clock, *, version: str, instance: str, environment: Mapping[str, str]
    ) -> None:
        """`environment` may say how traces get to their collector. Raises `SettingsError` where they cannot."""
        self._settings = settings
        self._clock = clock
        self._version = version
        self._export = span_export(settings.otel_endpoint, version=version, instance=instance, environment=environment)
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
        """Who gets in, and a scraper on this machine where the settings say so."""
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
    ) -> list[Resource]:
        """What the API has for operators."""
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
            sandbox=sandbox,
        )
        settings = self._settings
        public = bool(settings.origins or settings.tls_cert or settings.trusted_proxies)
        return [
            Health(readiness, vitals.summary, authenticator, public=public),
            Metrics(vitals),
            DrainControl(core.dispatcher),
        ]
