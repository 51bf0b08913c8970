"""The deadline of a stop is kept by the kernel: a process that does nothing any more ends all the same."""

import signal
import subprocess
import sys

import pytest

STUCK = """
import signal, threading
from bollard.cli.operate.server import StopDeadline

signal.signal(signal.SIGALRM, signal.SIG_IGN)  # as it may be inherited
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
deadline = StopDeadline(0.2)
deadline.arm()
deadline.arm()
threading.Lock().acquire() and threading.Event().wait()
"""


def test_a_stuck_process_is_ended_at_its_deadline() -> None:
    done = subprocess.run([sys.executable, "-c", STUCK], check=False, timeout=60)
    assert done.returncode == -signal.SIGALRM


WITHOUT_MEMORY = """
import resource, time
from bollard.cli.operate.server import StopDeadline

deadline, kept, size, last = StopDeadline(0.2), [], 1 << 20, None
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 20),) * 2)
while size >= 16:
    try:
        while True:
            kept.append(bytes(size))
    except MemoryError:
        size //= 2
try:
    while True:
        last = (last, len(kept) + 0.5)  # what Python keeps ready for tuples and numbers is used up as well
except MemoryError:
    pass
try:
    deadline.arm()
except MemoryError:
    pass
while True:
    time.sleep(1)
"""


def test_a_process_without_memory_is_ended_at_its_deadline() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_MEMORY], check=False, timeout=60)
    assert done.returncode == -signal.SIGALRM


BLOCKED = """
import asyncio, signal, sys, threading
from bollard.cli.operate.server import StopDeadline

async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, print)
    StopDeadline(0.2).arm_on(signal.SIGTERM)
    lock = threading.Lock()
    lock.acquire()
    print("blocked", flush=True)
    lock.acquire()

if sys.argv[1] == "uvloop":
    import uvloop as loops
else:
    import asyncio as loops
asyncio.Runner(loop_factory=loops.new_event_loop).run(main())
"""


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_signal_arms_the_deadline_of_a_process_with_a_blocked_loop(loop: str) -> None:
    with subprocess.Popen([sys.executable, "-c", BLOCKED, loop], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"blocked\n"
        process.terminate()
        try:
            assert process.wait(60) == -signal.SIGALRM
        finally:
            process.kill()
