"""Coverage-guided fuzzing of a host's end that is fed raw bytes. Run by scripts/fuzz; pytest does not collect it.

With any input: no exception leaves the connection, results are reported at most once and in order, a run ends once, and
the third strike is the last report.
"""

import asyncio
import sys
from typing import Any

import atheris
from corpus import FRAMES, plant

with atheris.instrument_imports(include=["bollard.wire"]):
    from bollard.wire.host_end import HostEnd
    from bollard.wire.stream import LineFramer
    from bollard.wire.strict_json import encode

INTRODUCTION = {
    "protocol": 1,
    "worker": {"name": "w", "version": "1", "language": "python"},
    "plugin": {"author": "acme", "name": "helpdesk", "version": "1"},
}
LOOP = asyncio.new_event_loop()


class Nowhere:
    """A transport whose other side is the fuzzer."""

    congested = False
    sent_bytes = 0
    read_bytes = None

    def __init__(self) -> None:
        self.receiver: Any = None
        self.closed: str | None = None

    def start(self, receiver: Any) -> None:
        self.receiver = receiver

    def send(self, frame: bytes) -> None:
        if len(frame) > 2 * 1024 * 1024:
            raise AssertionError("a frame over the limit was sent")

    def flush(self) -> None:
        pass

    async def drain(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self, reason: str) -> None:
        self.closed = reason


class Owner:
    """The observer of the channel and the sink of its run in one."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.ends = 0
        self.channel_strikes: list[str] = []
        self.run_strikes: list[str] = []

    def delta(self, delta: Any, size: int) -> None:
        self._take(delta.sequence)

    def result(self, result: Any) -> None:
        self._take(result.sequence)

    def _take(self, sequence: int) -> None:
        if self.taken and sequence <= self.taken[-1]:
            raise AssertionError("a result was told twice or out of order")
        if "run" in self.run_strikes:
            raise AssertionError("a result was told after the strike that ends the run")
        self.taken.append(sequence)

    def gap(self, first: int, last: int) -> None:
        if not (self.taken[-1] if self.taken else 0) < first <= last:
            raise AssertionError("a gap that is none")

    def refused(self, sequence: int, why: str) -> None:
        pass

    def called(self, call: Any) -> None:
        if call.action == "answer":
            call.answer(call.params)

    def crowded(self, call: Any, times: int) -> None:
        if times != 1:
            raise AssertionError("a channel tells them one by one")

    def struck(self, strike: Any) -> None:
        strikes = self.channel_strikes if strike.run_id is None else self.run_strikes
        if strikes and strikes[-1] != "nothing":
            raise AssertionError("a strike after the last one")
        strikes.append(strike.ends)

    def logged(self, record: Any) -> None:
        pass

    def batch_ended(self) -> None:
        pass

    def ended(self, end: Any) -> None:
        self.ends += 1

    def closed(self, reason: str) -> None:
        pass


async def one_stream(data: bytes) -> None:
    transport, owner = Nowhere(), Owner()
    host = HostEnd(transport, owner)
    opening = asyncio.ensure_future(host.initialize("1"))
    await turn()
    transport.receiver.frames_received([encode({"jsonrpc": "2.0", "id": 1, "result": INTRODUCTION})])
    await opening
    host.start_run_raw("r", {"context": {"run_id": "r"}}, owner)
    await turn()
    framer = LineFramer(4096)
    half = len(data) // 2
    for piece in (data[:half], data[half:], b"\n"):
        frames = framer.feed(piece)
        if frames and transport.closed is None:
            transport.receiver.frames_received(frames)
        await turn()
    transport.receiver.connection_lost("the end")
    await turn()
    if owner.ends != 1:
        raise AssertionError(f"the run ended {owner.ends} times")


async def turn() -> None:
    """Run everything that is scheduled; two turns, because an answer takes one and its waiter another."""
    for _ in range(3):
        turned = LOOP.create_future()
        LOOP.call_soon(turned.set_result, None)
        await turned


def one_input(data: bytes) -> None:
    trouble: list[Any] = []
    LOOP.set_exception_handler(lambda _, context: trouble.append(context))
    LOOP.run_until_complete(one_stream(data))
    if trouble:
        raise AssertionError(trouble)


if __name__ == "__main__":
    plant(sys.argv, [b"\n".join(FRAMES), *(frame + b"\n" for frame in FRAMES)])
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
