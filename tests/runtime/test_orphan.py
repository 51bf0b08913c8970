"""A worker whose host is killed: it does not stay behind, even when plugin code never gives it a chance to notice."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.full

HOST = """
import asyncio, os, sys
from bollard.wire import spawn_worker, worker_environment

async def main():
    worker = await spawn_worker(
        [sys.executable, "-P", "-m", "bollard.runtime", sys.argv[1]],
        environment=worker_environment(os.environ),
        output=lambda stream, line: print("loading", worker.pid, flush=True),
    )
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_worker_that_hangs_in_its_import_ends_after_its_host_was_killed(tmp_path: Path) -> None:
    plugin = tmp_path / "stuck.py"
    plugin.write_text("import threading\nprint('here', flush=True)\nthreading.Event().wait()\n")
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOST, str(plugin), stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert host.stdout is not None
    async with asyncio.timeout(120):
        _, pid = (await host.stdout.readline()).split()
    gone = os.pidfd_open(int(pid))
    readable = asyncio.Event()
    asyncio.get_running_loop().add_reader(gone, readable.set)
    try:
        os.kill(host.pid, signal.SIGKILL)
        await host.wait()
        async with asyncio.timeout(120):
            await readable.wait()
    finally:
        asyncio.get_running_loop().remove_reader(gone)
        os.close(gone)
