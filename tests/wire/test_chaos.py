"""A worker whose frames are dropped, repeated, reordered and cut."""

import asyncio
import random
from typing import Any

import pytest
from tests.doubles.memory_transport import memory_pair

from bollard.protocol import PluginIdentity, WorkerIdentity
from bollard.wire import HostEnd, Receiver, Transport, WireError, WorkerEnd, WorkerRun
from bollard.wire.envelope import RESULT_PREFIX

PATIENCE_S = 120.0
PLUGIN = PluginIdentity(author="acme", name="helpdesk", version="1")
WORKER = WorkerIdentity(name="test", version="1", language="python")
RESULTS = 400


class Chaos:
    """A transport around another that mistreats the results it is asked to send, in a way that its seed decides."""

    def __init__(self, inner: Transport, seed: int) -> None:
        self._inner = inner
        self._dice = random.Random(seed)
        self._held: list[bytes] = []
        self._harm = self._dice.choice([0.0, 0.02, 0.2, 0.6])
        self._cut_at = self._dice.choice([None, None, self._dice.randrange(1, RESULTS)])
        self.sent = 0

    @property
    def harmless(self) -> bool:
        return self._harm == 0 and self._cut_at is None

    @property
    def congested(self) -> bool:
        return self._inner.congested

    @property
    def sent_bytes(self) -> int:
        return self._inner.sent_bytes

    @property
    def read_bytes(self) -> int | None:
        return self._inner.read_bytes

    def start(self, receiver: Receiver) -> None:
        self._inner.start(receiver)

    def send(self, frame: bytes) -> None:
        if not frame.startswith(RESULT_PREFIX):
            self._inner.send(frame)
            return
        self.sent += 1
        for out in self._mistreated(frame):
            self._inner.send(out)
        if self.sent == self._cut_at:
            self._inner.close("cut")

    def _mistreated(self, frame: bytes) -> list[bytes]:
        if self._dice.random() >= self._harm:
            return [frame]
        match self._dice.choice(["drop", "twice", "hold", "release"]):
            case "drop":
                return []
            case "twice":
                return [frame, frame]
            case "hold":
                self._held.append(frame)
                return []
            case _:
                held, self._held = self._held, []
                self._dice.shuffle(held)
                return [frame, *held]

    def flush(self) -> None:
        self._inner.flush()

    async def drain(self) -> None:
        await self._inner.drain()

    def pause_reading(self) -> None:
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        self._inner.resume_reading()

    def close(self, reason: str) -> None:
        self._inner.close(reason)


async def behave(run: WorkerRun) -> None:
    try:
        for number in range(1, RESULTS):
            if number % 3:
                await run.emit("message.delta", {"chunk": {"role": "assistant", "content": str(number)}})
            else:
                await run.emit("message.completed", {"number": number})
        await run.emit("run.completed", {"finish_reason": "end"})
    except WireError:
        pass


def holes(taken: list[int]) -> list[tuple[int, int]]:
    return [(before + 1, after - 1) for before, after in zip([0, *taken], taken, strict=False) if after > before + 1]


@pytest.mark.requirement("P05-15", "P05-16", "P11-45")
@pytest.mark.parametrize("seed", range(60))
async def test_the_host_takes_each_result_at_most_once_in_order_and_names_the_gaps(
    trouble: list[Any], make_sink: Any, make_handler: Any, make_observer: Any, seed: int
) -> None:
    left, right = memory_pair()
    observer, handler = make_observer(), make_handler(behave)
    worker = WorkerEnd(Chaos(right, seed), handler, worker=WORKER, plugin=PLUGIN)
    handler.end = worker
    worker.start()
    host = HostEnd(left, observer)
    await host.initialize("1")
    sinks = [make_sink() for _ in range(3)]
    for number, sink in enumerate(sinks):
        sink.run = host.start_run_raw(f"r{number}", {"context": {"run_id": f"r{number}"}}, sink)
    async with asyncio.timeout(PATIENCE_S):
        for sink in sinks:
            await sink.until(lambda sink=sink: sink.ends)
        host.close("the test is over")
        await observer.until(lambda: observer.reasons)
        await asyncio.gather(*handler.tasks)
    for sink in sinks:
        assert sink.taken == sorted(set(sink.taken))
        assert set(sink.taken) <= set(range(1, RESULTS + 1))
        assert sink.gaps == holes(sink.taken)
        assert [int(text) for text in sink.texts] == [
            number for number in sink.taken if number % 3 and number < RESULTS
        ]
        assert not sink.refusals
        assert not sink.strikes
        assert len(sink.ends) == 1
        if sink.ends[0].how == "answered":
            assert sink.ends[0].last_sequence == RESULTS
    assert all(strike.fault == "foreign_result" for strike in observer.strikes)  # held back until its run had ended
    assert not trouble


async def test_a_harmless_shim_changes_nothing() -> None:
    left, right = memory_pair()
    shims = (Chaos(left, seed) for seed in range(100))
    shim = next(shim for shim in shims if shim.harmless)
    for number in range(10):
        shim.send(RESULT_PREFIX + b"%d}" % number)
    heard: list[bytes] = []

    class Ear:
        def frames_received(self, frames: Any) -> None:
            heard.extend(frames)

        def connection_lost(self, reason: str) -> None:
            done.set()

    done = asyncio.Event()
    right.start(Ear())
    shim.close("bye")
    await done.wait()
    assert heard == [RESULT_PREFIX + b"%d}" % number for number in range(10)]
