"""One plugin in one workspace: its code, its worker pool, and which of its runners and tools may be used."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import structlog

from bollard.host.clock import Clock
from bollard.host.errors import HostError
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.plugins.description import RequestedAccess, permission_names
from bollard.host.plugins.logs import PluginLog
from bollard.host.plugins.tool_definitions import why_entry
from bollard.host.reason import Why, why
from bollard.host.workers.boundary import PluginSource, SupervisedPool
from bollard.host.workers.bounds import WorkerBounds
from bollard.protocol import AgentRunnerDiscovery, ToolDefinition
from bollard.wire import RunnerCatalogue, ToolCatalogue

Origin = Literal["builtin", "settings", "installed", "dev", "remote"]
"""Where a plugin comes from: the host itself, its settings, an installation, a developer, or a remote runtime."""


@dataclass(slots=True, kw_only=True, eq=False)
class PoolPlacement:
    """The state of a plugin in a workspace. Only `PluginFleet` changes it."""

    workspace: str
    origin: Origin
    source: PluginSource
    pool: SupervisedPool
    log: PluginLog
    plugin_id: str | None = None
    """`author/name`; `None` until a worker declares it, if the files did not."""
    version: str | None = None
    digest: str | None = None
    """The code digest that its newest worker reports."""
    access: RequestedAccess | None = None
    """The consented access; `None` where the operator's settings are the consent."""
    pins: Mapping[str, str] | None = None
    """The consented digests of its tools' definitions; `None` where only the code is pinned."""
    catalogue: RunnerCatalogue | None = None
    tools: ToolCatalogue | None = None
    usable_tools: tuple[ToolDefinition, ...] = ()
    refused_tools: Mapping[str, Why] = field(default_factory=dict[str, Why])
    """By name, why a tool cannot be used."""
    bounds: WorkerBounds | None = None
    """What its newest worker may use; `None` before the first one, and for a plugin on another machine."""
    offered: frozenset[str] = frozenset()
    """Ids of the runners that can be used."""
    problems: list[Why] = field(default_factory=list[Why])
    """Why some of its runners or tools cannot be used."""
    covered: "PoolPlacement | None" = None
    """The placement that a plugin under development covers; in use again when the development ends."""


def usable_runners(
    placement: PoolPlacement, catalogue: RunnerCatalogue
) -> tuple[list[AgentRunnerDiscovery], list[Why]]:
    """The runners within the consent, and the problem of each other one. Pure."""
    usable: list[AgentRunnerDiscovery] = []
    problems = [why_entry(each) for each in catalogue.problems]
    for runner in catalogue.runners:
        if problem := _consent_problem(placement.access, runner):
            problems.append(problem)
        else:
            usable.append(runner)
    if placement.access is not None:
        offered = {runner.runner_name for runner in catalogue.runners}
        missing = [name for name, _ in placement.access.runners if name not in offered]
        problems += [
            why(
                f"runner {name} is in the manifest, but the worker does not offer it", "plugin.not_offered", runner=name
            )
            for name in missing
        ]
    return usable, problems


def _consent_problem(access: RequestedAccess | None, runner: AgentRunnerDiscovery) -> Why | None:
    if access is None:
        return None
    name = runner.runner_name
    allowed = access.permissions_of(name)
    if allowed is None:
        return why(f"runner {name} has no consent", "plugin.no_consent", runner=name)
    if beyond := ", ".join(sorted(set(permission_names(runner.manifest.permissions)) - allowed)):
        sentence = f"runner {name} requests {beyond} without consent"
        return why(sentence, "plugin.beyond_consent", runner=name, permissions=beyond)
    return None


# --- quarantine ---

_log = structlog.get_logger("bollard.host.plugins")


class QuarantineLog:
    """Records each quarantine of a plugin once. A plugin that recovers is recorded again at its next quarantine."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._recorded: set[PoolPlacement] = set()

    def update(self, placements: Iterable[PoolPlacement]) -> None:
        """Record the plugins that are in quarantine now and were not at the last call."""
        quarantined = {each for each in placements if each.pool.status == "quarantined"}
        for placement in quarantined - self._recorded:
            data = encode_data(
                {
                    "plugin": placement.plugin_id or placement.source.name,
                    "digest": placement.digest or "",
                    "reason": str(placement.pool.problem or ""),
                }
            )
            record = NewRecord(
                workspace=placement.workspace, type="plugin.quarantined", data=data, created_ms=self._clock.now_ms()
            )
            try:
                self._journal.append(Entry(records=[record], size=len(data), urgent=False))
            except HostError as error:
                _log.warning("a quarantine was not recorded yet", plugin=placement.source.name, problem=error.message)
                quarantined.discard(placement)
        self._recorded = quarantined
