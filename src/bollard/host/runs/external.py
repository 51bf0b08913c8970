"""External runs: a program outside the host appends the results and finalizes, with a token for that one run.

Its results are judged like those of a worker, under the grant of the run. Appending is idempotent: an equal result
under the same number changes nothing, a different one is refused.
"""

import hashlib
from collections.abc import Container
from dataclasses import dataclass, field

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import Conflict, Forbidden, InvalidRequest
from bollard.host.runs.live_run import LiveRun
from bollard.host.runs.runner_output import RunnerOutput
from bollard.protocol import TERMINAL_TYPES, JsonObject, JsonValue
from bollard.trust import BadCursor, canonical_sha256, open_cursor, seal_cursor
from bollard.wire import WorkerResult

_PURPOSE = "run-token"
_MARGIN_S = 60.0
"""How long a token outlives the deadline of its run, so that a late request gets a precise error."""


class ExternalResult(msgspec.Struct, frozen=True, kw_only=True):
    """One result as the program sends it."""

    sequence: int
    type: str
    data: JsonObject
    size_bytes: int


@dataclass(slots=True)
class _Appended:
    """The digest of each result so far, in order."""

    digests: list[bytes] = field(default_factory=list[bytes])


class ExternalRuns:
    """The external runs that are live here."""

    def __init__(self, secret: bytes, clock: Clock, live: Container[str]) -> None:
        """Tokens of `live` runs do not expire by the wall clock, because only active time counts toward a deadline."""
        self._live = live
        self._secret = hashlib.sha256(b"bollard-run-token\0" + secret).digest()
        self._clock = clock
        self._appended: dict[str, _Appended] = {}

    # --- tokens ---

    def issue(self, run: LiveRun) -> str:
        """Issue a token for this run alone. The run records `token.issued`."""
        expires_ms = self._clock.now_ms() + round((run.facts.deadline_s + _MARGIN_S) * 1000)
        run.note("token.issued", {"purpose": "external", "expires_ms": expires_ms})
        place: JsonValue = [expires_ms, run.epoch, run.facts.workspace]
        return seal_cursor(self._secret, purpose=_PURPOSE, scope=run.facts.run_id, place=place)

    def workspace_of(self, token: str, run_id: str) -> str | None:
        """The workspace of the run, if the token is for this run and has not expired."""
        try:
            place = open_cursor(self._secret, token, purpose=_PURPOSE, scope=run_id)
        except BadCursor:
            return None
        match place:
            case [int() as expires_ms, _, str() as workspace] if (
                run_id in self._live or expires_ms > self._clock.now_ms()
            ):
                return workspace
            case _:
                return None

    # --- results ---

    async def append(self, run: LiveRun, results: list[ExternalResult]) -> int:
        """Append results and return the newest number. They are on disk then. Repeated results are skipped."""
        self._check_open(run)
        appended = self._appended.setdefault(run.facts.run_id, _Appended())
        output = RunnerOutput(run)
        for result in _fresh(appended, results):  # all are checked before any has an effect
            appended.digests.append(_digest(result))
            output.result(
                WorkerResult(run.facts.run_id, result.type, result.data, result.sequence, None, result.size_bytes)
            )
        run.flush()
        if not await run.written() or run.output_spent:  # then some of them were dropped
            raise Conflict("the run has ended", reason="run_ended_before_append", hint="read its records")
        return len(appended.digests)

    async def finalize(self, run: LiveRun, kind: str, data: JsonObject) -> None:
        """End the run with its terminal result. Returns when the end is on disk."""
        self._check_open(run)
        appended = self._appended.setdefault(run.facts.run_id, _Appended())
        if not run.ending:
            RunnerOutput(run).result(WorkerResult(run.facts.run_id, kind, data, len(appended.digests) + 1, None, 0))
            run.give_up("answered")
        await run.done

    def forget(self, run_id: str) -> None:
        self._appended.pop(run_id, None)

    @staticmethod
    def _check_open(run: LiveRun) -> None:
        if not run.facts.external:
            hint = "only external runs accept results"
            raise Forbidden("a worker executes this run", reason="run_not_external", hint=hint)
        if run.state.cancel is not None or run.ending:
            message, status = "the run has ended or is being stopped", run.state.status
            raise Conflict(message, reason="run_closed", hint="read its records", status=status)


def _fresh(appended: _Appended, results: list[ExternalResult]) -> list[ExternalResult]:
    """The results that were not appended before. Numbers must continue, or repeat an equal result."""
    known, fresh = len(appended.digests), list[ExternalResult]()
    for result in results:
        if result.type in TERMINAL_TYPES:
            message = "a terminal result cannot be appended"
            raise InvalidRequest(message, reason="terminal_result", hint="post it to …/finalize", field="type")
        if 1 <= result.sequence <= known:
            if appended.digests[result.sequence - 1] != _digest(result):
                raise Conflict(
                    f"result {result.sequence} was appended with other content",
                    reason="result_changed",
                    hint="number results 1, 2, 3 …, and repeat a result only unchanged",
                    sequence=result.sequence,
                )
        elif result.sequence == known + len(fresh) + 1:
            fresh.append(result)
        else:
            expected = known + len(fresh) + 1
            raise InvalidRequest(
                f"the next result is number {expected}",
                reason="result_out_of_order",
                hint="append results in order",
                field="sequence",
                expected=expected,
            )
    return fresh


def _digest(result: ExternalResult) -> bytes:
    return bytes.fromhex(canonical_sha256({"type": result.type, "data": result.data}))[:16]
