"""Calls of models that no run made, in the log of their workspace. What a run's calls came to is in its own ledger."""

import structlog

from bollard.host.clock import Clock
from bollard.host.errors import HostError
from bollard.host.log.entries import Entry, Outcome
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.protocol import JsonObject

__all__ = ["WorkspaceLedger"]

_log = structlog.get_logger("bollard.models")


class WorkspaceLedger:
    """One per host."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def write(self, workspace: str, kind: str, data: JsonObject) -> None:
        """Nobody waits for it: the call is over, and its answer is no less true without the record."""
        body = encode_data(data)
        record = NewRecord(workspace=workspace, type=kind, data=body, created_ms=self._clock.now_ms())
        try:
            self._journal.append(Entry(records=[record], size=len(body)), lambda fate: _told(workspace, fate))
        except HostError as error:
            _told(workspace, error)


def _told(workspace: str, fate: Outcome | HostError) -> None:
    if isinstance(fate, HostError):
        _log.warning("a call of a model is not in the log", workspace=workspace, problem=fate.message)
