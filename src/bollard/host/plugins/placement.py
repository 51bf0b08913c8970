"""One plugin in one workspace: its code, its workers, what it offers, and what of that may be used."""

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
from bollard.host.workers.boundary import PluginSource, SupervisedPool
from bollard.protocol import AgentRunnerDiscovery, ToolDefinition
from bollard.wire import RunnerCatalogue, ToolCatalogue

Origin = Literal["builtin", "settings", "installed", "dev", "remote"]
"""Where a plugin comes from: with the host, by its settings, by consent, under development, or over the network."""


@dataclass(slots=True, kw_only=True, eq=False)
class PoolPlacement:
    """Changes as its workers introduce themselves; the fleet alone changes it."""

    workspace: str
    origin: Origin
    source: PluginSource
    pool: SupervisedPool
    log: PluginLog
    plugin_id: str | None = None
    """`author/name`; nothing before the first worker has said so, where nobody knew before."""
    version: str | None = None
    digest: str | None = None
    """What its newest worker says its code is."""
    asked: RequestedAccess | None = None
    """What was consented to; `None` where the operator's settings are the consent."""
    pins: Mapping[str, str] | None = None
    """The digests of its tools' definitions when somebody said yes; `None` where nothing but its code is pinned."""
    catalogue: RunnerCatalogue | None = None
    tools: ToolCatalogue | None = None
    usable_tools: tuple[ToolDefinition, ...] = ()
    refused_tools: Mapping[str, str] = field(default_factory=dict[str, str])
    """By name, why a tool cannot be used."""
    offered: frozenset[str] = frozenset()
    """Ids of the runners that can be used."""
    problems: list[str] = field(default_factory=list[str])
    """What of it cannot be used, and why."""
    under: "PoolPlacement | None" = None
    """What is in use again when this one, which is under development, is gone."""


def usable_runners(fitting: PoolPlacement, catalogue: RunnerCatalogue) -> tuple[list[AgentRunnerDiscovery], list[str]]:
    """The runners that fit what was consented to, and a sentence about each other one. Pure."""
    usable: list[AgentRunnerDiscovery] = []
    problems = [f"{each.entry}: {each.field}: {each.problem}" for each in catalogue.problems]
    for runner in catalogue.runners:
        if problem := _beyond_consent(fitting.asked, runner):
            problems.append(problem)
        else:
            usable.append(runner)
    if fitting.asked is not None:
        there = {runner.runner_name for runner in catalogue.runners}
        missing = [name for name, _ in fitting.asked.runners if name not in there]
        problems += [f"runner {name} is in the manifest and was not offered by the worker" for name in missing]
    return usable, problems


def _beyond_consent(asked: RequestedAccess | None, runner: AgentRunnerDiscovery) -> str | None:
    if asked is None:
        return None
    allowed = asked.permissions_of(runner.runner_name)
    if allowed is None:
        return f"runner {runner.runner_name} is not in what was consented to"
    if beyond := sorted(set(permission_names(runner.manifest.permissions)) - allowed):
        return f"runner {runner.runner_name} asks for {', '.join(beyond)}, which nobody consented to"
    return None


# Leaves a record when the workers of a plugin were given up: once for each time.


_log = structlog.get_logger("bollard.host.plugins")


class QuarantineLog:
    """Looked at now and then; what it has told of is told again only after a pardon."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._told: set[PoolPlacement] = set()

    def look(self, fittings: Iterable[PoolPlacement]) -> None:
        now = {each for each in fittings if each.pool.status == "quarantined"}
        for fitting in now - self._told:
            data = encode_data(
                {
                    "plugin": fitting.plugin_id or fitting.source.name,
                    "digest": fitting.digest or "",
                    "reason": fitting.pool.problem or "",
                }
            )
            record = NewRecord(
                workspace=fitting.workspace, type="plugin.quarantined", data=data, created_ms=self._clock.now_ms()
            )
            try:
                self._journal.append(Entry(records=[record], size=len(data), urgent=False))
            except HostError as error:
                _log.warning("a quarantine was not recorded yet", plugin=fitting.source.name, problem=error.message)
                now.discard(fitting)
        self._told = now
