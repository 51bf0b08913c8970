"""The witness: sends every signed head to a second sink, so that a rewrite of the log alone is detected.

If the sink is down, the host continues, reports it, and writes an `audit.gap` record when the sink is back. Meanwhile
only the newest head of each chain is held, because it vouches for everything before it.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from bollard.host.audit.heads import head_line
from bollard.host.clock import Clock
from bollard.host.errors import HostError
from bollard.host.limits import WITNESS_CATCH_UP, WITNESS_CLOSE_S, WITNESS_HANGS_S, WITNESS_RETRY_S
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.store.queries import EVER_MS
from bollard.host.store.rows import HeadRow
from bollard.host.store.store import Store

_log = structlog.get_logger("bollard.host.audit")
_Chain = tuple[str, str]


@dataclass(slots=True)
class WitnessNumbers:
    """Counters of the witness, for metrics."""

    heads: int = 0
    """Heads that the sink stored."""
    failures: int = 0
    """Writes that failed or hung."""
    down: bool = False
    problem: str = ""
    down_since_ms: int = 0


class Witness:
    """Sends heads to the sink, and records gaps. One per host."""

    def __init__(
        self,
        sink: "WitnessThread",
        journal: Journal,
        clock: Clock,
        *,
        incarnation: str,
        workspace: str,
        place: str,
        hangs_s: float = WITNESS_HANGS_S,
        retry_s: float = WITNESS_RETRY_S,
    ) -> None:
        """`incarnation` names the chains of this host; gaps are recorded in `workspace`; `place` is the display name of
        the sink."""
        self._incarnation = incarnation
        self._hangs_s = hangs_s
        self._retry_s = retry_s
        self._sink = sink
        self._journal = journal
        self._clock = clock
        self._workspace = workspace
        self._place = place
        self._newest: dict[_Chain, HeadRow] = {}
        """The newest head of each chain of this incarnation."""
        self._waiting: dict[_Chain, HeadRow] = {}
        self._replaced = 0
        """Heads that newer ones replaced while the sink was down."""
        self._woken = asyncio.Event()
        self._hanging: asyncio.Future[OSError | None] | None = None
        """A write without a result so far."""
        self._task: asyncio.Task[None] | None = None
        self.numbers = WitnessNumbers()

    def start(self, store: Store) -> None:
        """Send the unsent heads of earlier incarnations, and all new heads."""
        self._journal.signed = self.signed
        self._task = asyncio.create_task(self._run(store))

    def signed(self, heads: Sequence[HeadRow]) -> None:
        for head in heads:
            key = (head.workspace, head.chain)
            self._replaced += self.numbers.down and key in self._waiting
            self._waiting[key] = head
            if head.chain == self._incarnation:  # how an earlier one ended is not known
                self._newest[key] = head
        self._woken.set()

    async def close(self) -> None:
        """Mark every chain of this incarnation as closed, with a bounded wait. Call it after closing the journal."""
        if self._task is not None:
            self._task.cancel()
        lines = [head_line(row) for key, row in self._waiting.items() if key not in self._newest]
        lines += [head_line(row, closed=True) for row in self._newest.values()]
        if lines and not self.numbers.down:
            problem = await self._put(b"".join(lines), WITNESS_CLOSE_S)
            if problem is not None:
                _log.warning("the witness did not get the closing heads", place=self._place, problem=problem)
        self._sink.close()

    async def _run(self, store: Store) -> None:
        await self._catch_up(store)
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._waiting:
                if not await self._tell():
                    await asyncio.sleep(self._retry_s)

    async def _catch_up(self, store: Store) -> None:
        """Read the heads of earlier incarnations in the background: there may be many."""
        try:
            rows = await asyncio.to_thread(store.newest_heads, None, EVER_MS, WITNESS_CATCH_UP)
        except HostError as error:
            _log.warning("heads of earlier starts were not sent to the witness", problem=error.message)
            return
        for row in rows:
            self._waiting.setdefault((row.workspace, row.chain), row)
            self._woken.set()

    async def _tell(self) -> bool:
        """Send the waiting heads in one write; false if the sink failed."""
        sent, self._waiting = self._waiting, {}
        problem = await self._put(b"".join(head_line(row) for row in sent.values()), self._hangs_s)
        if problem is None:
            self.numbers.heads += len(sent)
            if self.numbers.down:
                await self._back()
            return True
        self._waiting = {**sent, **self._waiting}
        self.numbers.failures += 1
        if not self.numbers.down:
            self.numbers.down, self.numbers.down_since_ms = True, self._clock.now_ms()
            hint = "check its disk or the program that reads it; the log continues"
            _log.error("the witness of the log is down", place=self._place, problem=problem, hint=hint)
        self.numbers.problem = problem
        return False

    async def _put(self, lines: bytes, within_s: float) -> str | None:
        """Write lines to the sink; returns the problem, if any."""
        if self._hanging is not None:  # nothing can be put behind an earlier write that hangs
            await asyncio.wait([self._hanging], timeout=within_s)
            if not self._hanging.done():
                return f"an earlier write hangs (waited {within_s:g} s)"
        result = self._hanging = self._begun(lines)
        await asyncio.wait([result], timeout=within_s)
        if not result.done():
            return f"it did not take a head within {within_s:g} s"
        self._hanging, error = None, result.result()
        return None if error is None else error.strerror or str(error)

    def _begun(self, lines: bytes) -> "asyncio.Future[OSError | None]":
        loop = asyncio.get_running_loop()
        result: asyncio.Future[OSError | None] = loop.create_future()

        def settle(error: OSError | None) -> None:
            if not result.done():
                result.set_result(error)

        def written(error: OSError | None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, error)

        self._sink.put(lines, written)
        return result

    async def _back(self) -> None:
        """Record the gap after the sink has recovered."""
        numbers = self.numbers
        data = encode_data(
            {
                "sink": "witness",
                "from_ms": numbers.down_since_ms,
                "until_ms": self._clock.now_ms(),
                "heads_replaced": self._replaced,
                "problem": numbers.problem,
            }
        )
        record = NewRecord(workspace=self._workspace, type="audit.gap", data=data, created_ms=self._clock.now_ms())
        try:
            await self._journal.commit(Entry(records=[record], size=len(data)))
        except HostError as error:
            _log.warning("the gap of the witness was not recorded", problem=error.message)
            return  # it stays down until the log says so
        numbers.down, numbers.problem, self._replaced = False, "", 0
        _log.info("the witness of the log is back", place=self._place)


# --- the writing thread, which may hang with its witness ---

Written = Callable[[OSError | None], None]
"""Called in the thread with the result of a write."""


class WitnessPlace(Protocol):
    """A file or URL of a witness. Both calls block, and raise `OSError`."""

    def append(self, lines: bytes) -> None:
        """Append lines durably."""
        ...

    def lines(self, newest_bytes: int | None = None) -> Iterator[bytes]:
        """All lines in order, or those of about the last `newest_bytes`."""
        ...


class WitnessThread:
    """Writes to a witness in one thread, one write at a time."""

    def __init__(self, place: WitnessPlace) -> None:
        self._place = place
        self._queue: queue.SimpleQueue[tuple[bytes, Written] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def put(self, lines: bytes, written: Written) -> None:
        """Append these lines. A caller that does not wait for `written` must bound the queue itself."""
        if self._thread is None:
            # A daemon: a thread that hangs in a write must not block the exit of the host.
            self._thread = threading.Thread(target=self._work, name="bollard-witness", daemon=True)
            self._thread.start()
        self._queue.put((lines, written))

    def close(self) -> None:
        """End the thread after the queued writes."""
        self._queue.put(None)

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            lines, written = work
            try:
                self._place.append(lines)
            except Exception as error:  # noqa: BLE001 -- a thread that is gone would look like a witness that hangs
                written(error if isinstance(error, OSError) else OSError(repr(error)))
            else:
                written(None)
