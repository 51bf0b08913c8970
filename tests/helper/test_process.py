"""A helper process as the host sees it: requests and answers, and every way in which it ends."""

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest
import uvloop
from tests.tables import for_each

from bollard.helper.host_link import framed
from bollard.helper.process import FrameLink, HelperEnded, HelperProcess, LinkLimits

PATIENCE_S = 120.0
ROOT = Path(__file__).parents[2]
SCRIPTED = "tests.helper.scripted_helper"


def readable(body: bytes) -> str:
    if body.endswith(b"nonsense"):
        raise msgspec.DecodeError("not of this version")
    return body.decode()


@for_each("new_loop", [asyncio.SelectorEventLoop, uvloop.new_event_loop])
def test_the_end_of_a_peer_with_unread_data_on_both_sides_is_noticed(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """uvloop calls the reader of such a socket once, and then never again."""

    async def main() -> list[str]:
        heard: list[str] = []
        lost = asyncio.Event()
        ours, theirs = socket.socketpair()
        link = FrameLink(ours, decode=readable, heard=heard.append, lost=lost.set)
        await asyncio.sleep(0)  # the loop watches the socket now
        link.send(b"never read")
        theirs.sendall(framed(b"last words"))
        theirs.close()
        async with asyncio.timeout(PATIENCE_S):
            await lost.wait()
        return heard

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(main()) == ["last words"]


class Owner:
    """The part of a host that a helper belongs to."""

    def __init__(self) -> None:
        self.lost: list[int] = []
        self.lines: list[str] = []
        self.has_lost = asyncio.Event()

    def start(self, module: str = SCRIPTED, **limits: float) -> HelperProcess[str]:
        return HelperProcess(
            module,
            environment={**os.environ, "PYTHONPATH": str(ROOT)},
            decode=readable,
            heard=lambda helper, said: helper.settle(int(said.split()[0]), said.partition(" ")[2]),
            lost=self._lose,
            limits=LinkLimits(**limits),
            output=lambda _, line: self.lines.append(line),
        )

    def _lose(self, helper: HelperProcess[str]) -> None:
        self.lost.append(helper.pid)
        self.has_lost.set()


@pytest.fixture
async def owner() -> AsyncIterator[Owner]:
    async with asyncio.timeout(PATIENCE_S):
        yield Owner()


@pytest.fixture
async def helper(owner: Owner) -> AsyncIterator[HelperProcess[str]]:
    helper = owner.start()
    yield helper
    await helper.end()


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 -- another process
        await asyncio.sleep(0.01)


def is_gone(pid: int) -> bool:
    try:
        return "(zombie)" in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True


async def test_answers_reach_their_requests_in_any_order(helper: HelperProcess[str]) -> None:
    held = asyncio.create_task(helper.request(1, b"1 hold -"))
    large = "x" * 3_000_000  # more than the socket takes, in both directions
    asked = [helper.request(number, f"{number} echo {number}{large}".encode()) for number in (2, 3)]
    assert await asyncio.gather(*asked) == [f"2{large}", f"3{large}"]
    assert helper.has_requests
    helper.settle(1, "late")
    helper.settle(1, "twice")
    assert await held == "late"
    assert not helper.has_requests
    helper.settle(1, "nobody waits")


async def test_requests_to_a_dead_helper_fail_once_and_its_owner_is_notified_once(
    owner: Owner, helper: HelperProcess[str]
) -> None:
    assert await helper.request(0, b"0 echo up") == "up"
    os.kill(helper.pid, signal.SIGSTOP)
    large = b"1 echo " + b"x" * 8_000_000  # more than the socket takes, so that the others wait behind it
    asked = [asyncio.create_task(helper.request(n, large if n == 1 else b"9 hold -")) for n in range(1, 50)]
    await until(lambda: helper.has_requests)
    asked[7].cancel()
    helper.kill()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(answers.pop(7), asyncio.CancelledError)
    assert {type(answer) for answer in answers} == {HelperEnded}
    with pytest.raises(HelperEnded):
        await helper.request(99, b"99 echo late")
    helper.send(b"100 echo late")
    await helper.end()
    assert owner.lost == [helper.pid]
    gc.collect()  # an unhandled error is raised now, and fails this test


async def test_children_of_a_helper_are_killed_with_it(owner: Owner, helper: HelperProcess[str]) -> None:
    grandchild = int(await helper.request(1, b"1 start -"))
    assert not is_gone(grandchild)
    helper.send(b"2 die -")
    await owner.has_lost.wait()
    await until(lambda: is_gone(grandchild))


async def test_a_stopped_helper_is_not_reported_as_lost(owner: Owner) -> None:
    for verb, farewell in (("echo", None), ("echo", b"2 leave -"), ("sleep", None), ("sleep", b"2 leave -")):
        helper = owner.start()
        held = asyncio.create_task(helper.request(1, b"1 hold -"))
        assert await helper.request(3, b"3 echo up") == "up"
        helper.send(f"4 {verb} -".encode())
        await helper.stop(0.05 if verb == "sleep" else PATIENCE_S, farewell)
        assert is_gone(helper.pid), verb
        with pytest.raises(HelperEnded):
            await held
        await helper.stop(PATIENCE_S)
    assert owner.lost == []


async def test_a_helper_that_fails_to_load_is_lost_with_its_last_output(owner: Owner) -> None:
    helper = owner.start("tests.helper.no_such_module")
    with pytest.raises(HelperEnded):
        await helper.request(1, b"1 echo -")
    await helper.end()
    assert owner.lost == [helper.pid]
    assert "No module named" in owner.lines[-1]


@for_each("answer", [b"x" * 100_001, b"nonsense"])
async def test_a_helper_with_an_oversized_or_unreadable_answer_is_lost(answer: bytes) -> None:
    owner = Owner()
    helper = owner.start(frame_bytes=100_000)
    assert await helper.request(1, b"1 echo " + b"x" * 90_000) == "x" * 90_000
    with pytest.raises(HelperEnded):
        await helper.request(2, b"2 echo " + answer)
    await helper.end()
    assert owner.lost == [helper.pid]
    assert is_gone(helper.pid)


@for_each("limits", [{"unsent_bytes": 2_000_000}, {"stall_s": 0.05}])
async def test_a_helper_that_does_not_read_is_cut(limits: dict[str, float]) -> None:
    owner = Owner()
    helper = owner.start(**limits)
    assert await helper.request(1, b"1 echo up") == "up"
    helper.send(b"2 sleep -")
    with pytest.raises(HelperEnded):
        async with asyncio.timeout(PATIENCE_S):
            await helper.request(3, b"3 echo " + b"x" * 4_000_000)
    await helper.end()
    assert owner.lost == [helper.pid]


async def test_a_command_that_cannot_start_leaves_no_open_descriptor(
    owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    before = sorted(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="/no/such/python"):
        owner.start()
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) & {signal.SIGTERM, signal.SIGINT} == set()


async def test_signals_do_not_end_a_helper_during_or_after_loading(helper: HelperProcess[str]) -> None:
    for _ in range(2):
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(helper.pid, number)
        assert await helper.request(1, b"1 echo alive") == "alive"


@pytest.mark.parametrize("module", ["bollard.knowledge", "bollard.mcp_bridge", "bollard.host.log.journal_process"])
def test_a_helper_started_by_a_user_says_that_the_host_starts_it(module: str) -> None:
    ended = subprocess.run([sys.executable, "-m", module], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == "the host starts this process itself\n"
