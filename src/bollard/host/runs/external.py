"""Runs that a program outside executes: it appends results and finalizes, holding a token for that one run.

Its results pass the same judgement as a worker's, under the same grant. Appending again what was appended changes
nothing; appending something else under the same number is refused.
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
"""Time beyond the run's deadline for which its token is still read at least, so that a late answer is told why."""


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
        """`live` are the runs that go on here: their tokens are good whatever the clock on the wall says, since only
        the time in which a run is active counts toward its deadline."""
        self._live = live
        self._secret = hashlib.sha256(b"bollard-run-token\0" + secret).digest()
        self._clock = clock
        self._appended: dict[str, _Appended] = {}

    # --- tokens ---

    def issue(self, run: LiveRun) -> str:
        """A token for this run and nothing else; that it was issued is written down."""
        expires_ms = self._clock.now_ms() + round((run.facts.deadline_s + _MARGIN_S) * 1000)
        run.note("token.issued", {"purpose": "external", "expires_ms": expires_ms})
        place: JsonValue = [expires_ms, run.epoch, run.facts.workspace]
        return seal_cursor(self._secret, purpose=_PURPOSE, scope=run.facts.run_id, place=place)

    def workspace_of(self, token: str, run_id: str) -> str | None:
        """The workspace of the run that this token is for; nothing where it is for another, or has expired."""
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
        """On disk when it returns the newest number. What it was given before may be among them."""
        self._refuse_foreign(run)
        appended = self._appended.setdefault(run.facts.run_id, _Appended())
        output = RunnerOutput(run)
        for result in _fresh(appended, results):  # all are checked before any has an effect
            appended.digests.append(_digest(result))
            output.result(
                WorkerResult(run.facts.run_id, result.type, result.data, result.sequence, None, result.size_bytes)
            )
        run.flush()
        if not await run.written() or run.output_spent:  # then some of them were dropped
            raise Conflict("the run has ended meanwhile", hint="read its records")
        return len(appended.digests)

    async def finalize(self, run: LiveRun, kind: str, data: JsonObject) -> None:
        """End the run with its terminal result; done when its end is on disk."""
        self._refuse_foreign(run)
        appended = self._appended.setdefault(run.facts.run_id, _Appended())
        if not run.ending:
            RunnerOutput(run).result(WorkerResult(run.facts.run_id, kind, data, len(appended.digests) + 1, None, 0))
            run.give_up("answered", "")
        await run.done

    def forget(self, run_id: str) -> None:
        self._appended.pop(run_id, None)

    @staticmethod
    def _refuse_foreign(run: LiveRun) -> None:
        if not run.facts.external:
            raise Forbidden(
                "a worker executes this run", hint="only a run created for an outside program takes results"
            )
        if run.state.cancel is not None or run.ending:
            raise Conflict("the run has ended or is being stopped", hint="read its records", status=run.state.status)


def _fresh(appended: _Appended, results: list[ExternalResult]) -> list[ExternalResult]:
    """Those that are new: each number is the next one, or that of an equal result before."""
    known, fresh = len(appended.digests), list[ExternalResult]()
    for result in results:
        if result.type in TERMINAL_TYPES:
            raise InvalidRequest("a run is ended by finalize", hint="post it to …/finalize", field="type")
        if 1 <= result.sequence <= known:
            if appended.digests[result.sequence - 1] != _digest(result):
                raise Conflict(
                    f"result {result.sequence} was appended with other content",
                    hint="number your results 1, 2, 3 … and repeat one only as it was",
                    sequence=result.sequence,
                )
        elif result.sequence == known + len(fresh) + 1:
            fresh.append(result)
        else:
            raise InvalidRequest(
                f"the next result is number {known + len(fresh) + 1}", hint="append results in order", field="sequence"
            )
    return fresh


def _digest(result: ExternalResult) -> bytes:
    return bytes.fromhex(canonical_sha256({"type": result.type, "data": result.data}))[:16]
