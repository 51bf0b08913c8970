"""Records violations of the protocol by workers. Repeats are counted, so that a flood costs few records."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from bollard.host.clock import Clock
from bollard.host.errors import HostError
from bollard.host.limits import VIOLATION_REPEAT_S, VIOLATION_RUNS
from bollard.host.log.entries import CommitOutcome, Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.protocol import JsonValue
from bollard.wire import Violation

_log = structlog.get_logger("bollard.host.plugins")
_RUN_CHARACTERS: Final = 128
_PROBLEM_CHARACTERS: Final = 512


class Offender(msgspec.Struct, frozen=True, kw_only=True):
    """Whose worker it was."""

    workspace: str
    plugin: str | None
    """`author/name`, or the name of its source. `None` for a runtime that has not introduced itself."""
    digest: str | None = None
    runtime: str | None = None
    """The name of a remote runtime."""


class _Key(msgspec.Struct, frozen=True):
    """Violations that share their records."""

    offender: Offender
    kind: str
    ends: str
    run: str | None


@dataclass(slots=True)
class _Tally:
    problem: str
    waiting: int = 0
    """Violations that no record counts yet."""
    recorded_at: float | None = None
    """When the last record was written. `None` if that failed."""


class ViolationLog:
    """Records the first violation of a kind at once, and the number of its repeats every ten minutes. One per host."""

    def __init__(self, journal: Journal, clock: Clock, counts: Counter[tuple[str, str]]) -> None:
        """`counts` gets all violations by plugin and kind."""
        self._journal = journal
        self._clock = clock
        self._counts = counts
        self._tallies: dict[_Key, _Tally] = {}

    def note(self, offender: Offender, violation: Violation) -> None:
        """Count a violation, and record it if it is the first of its kind. Texts of the worker have no secrets."""
        self._counts[offender.plugin or offender.runtime or "", violation.kind] += 1
        run = None if violation.run_id is None else violation.run_id[:_RUN_CHARACTERS]
        key = _Key(offender, violation.kind, violation.ends, run)
        if run is not None and key not in self._tallies and self._named(offender) >= VIOLATION_RUNS:
            key = _Key(offender, violation.kind, violation.ends, None)  # a worker can invent any number of runs
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = _Tally(violation.detail[:_PROBLEM_CHARACTERS], 1)
            self._write(key, tally)
        else:
            tally.waiting += 1

    def update(self) -> None:
        """Record repeats that are due, and what could not be recorded before. Call often."""
        now = self._clock.monotonic()
        for key, tally in list(self._tallies.items()):
            if tally.recorded_at is not None and now - tally.recorded_at < VIOLATION_REPEAT_S:
                continue
            if tally.waiting:
                self._write(key, tally)
            else:
                del self._tallies[key]

    def flush(self) -> None:
        """Record all repeats, because the host stops."""
        for key, tally in self._tallies.items():
            if tally.waiting:
                self._write(key, tally)

    def _named(self, offender: Offender) -> int:
        return sum(key.run is not None and key.offender == offender for key in self._tallies)

    def _write(self, key: _Key, tally: _Tally) -> None:
        count, tally.waiting, tally.recorded_at = tally.waiting, 0, self._clock.monotonic()

        def settle(outcome: CommitOutcome) -> None:
            if isinstance(outcome, HostError):
                _log.warning("a violation was not recorded yet", plugin=key.offender.plugin, problem=outcome.message)
                tally.waiting, tally.recorded_at = tally.waiting + count, None

        data = encode_data(_data_of(key, tally.problem, count))
        record = NewRecord(
            workspace=key.offender.workspace, type="worker.violation", data=data, created_ms=self._clock.now_ms()
        )
        try:
            self._journal.append(Entry(records=[record], size=len(data), urgent=False), settle)
        except HostError as error:
            settle(error)


def _data_of(key: _Key, problem: str, count: int) -> dict[str, JsonValue]:
    """The run goes into the data and not into the record: a worker may name any run, and adds to the ledger of none."""
    offender = key.offender
    found = {
        "plugin": offender.plugin,
        "digest": offender.digest,
        "runtime": offender.runtime,
        "kind": key.kind,
        "run_id": key.run,
        "ends": key.ends,
        "problem": problem,
        "count": count,
    }
    return {name: value for name, value in found.items() if value is not None}
