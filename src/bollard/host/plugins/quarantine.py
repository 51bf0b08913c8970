"""Leaves a record when the workers of a plugin were given up: once for each time."""

from collections.abc import Iterable

import structlog

from bollard.host.clock import Clock
from bollard.host.errors import HostError
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.plugins.fitting import Fitting

__all__ = ["QuarantineLog"]

_log = structlog.get_logger("bollard.host.plugins")


class QuarantineLog:
    """Looked at now and then; what it has told of is told again only after a pardon."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._told: set[Fitting] = set()

    def look(self, fittings: Iterable[Fitting]) -> None:
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
