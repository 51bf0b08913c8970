"""A worker process on the other end of a socket pair: its environment, its channel, its output, its end.

Starts and stops one process. When to start one, and what a crash means, is the supervisor's business.
"""

import asyncio
import contextlib
import os
import signal
import socket
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

from bollard.protocol import CHANNEL_FD_VARIABLE
from bollard.wire.limits import OUTPUT_LINE_BYTES, TERMINATE_GRACE_S
from bollard.wire.stream import StreamTransport, connect_socket

__all__ = ["ENVIRONMENT_ALLOWED", "OutputLine", "WorkerProcess", "spawn_worker", "worker_environment"]

ENVIRONMENT_ALLOWED: Final = frozenset(
    {"HOME", "LANG", "LC_ALL", "LC_CTYPE", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "TZ", "USER"}
)
"""What every worker may see of the host's environment. A plugin's manifest names what else it needs."""

OutputLine = Callable[[Literal["stdout", "stderr"], str], None]


def worker_environment(inherited: Mapping[str, str], declared: Iterable[str] = ()) -> dict[str, str]:
    """The environment of a worker: the allow-list and what its manifest declares; never a `BOLLARD_*` of the host."""
    wanted = ENVIRONMENT_ALLOWED | {name for name in declared if not name.upper().startswith("BOLLARD_")}
    return {name: value for name, value in inherited.items() if name in wanted}


class WorkerProcess:
    """A started worker: its transport, and the way to end it and everything it spawned."""

    def __init__(self, process: Process, transport: StreamTransport, readers: Sequence[asyncio.Task[None]]) -> None:
        self.transport = transport
        self._process = process
        self._readers = readers

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    async def wait(self) -> int:
        """The exit code, once the process has ended."""
        return await self._process.wait()

    async def stop(self, grace_s: float = TERMINATE_GRACE_S) -> int:
        """Close the channel, give the worker a moment to leave by itself, then end its whole process group."""
        self.transport.close("the host stops the worker")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), grace_s)
        return await self.kill()

    async def kill(self) -> int:
        """End the whole process group now. What it spawned in it goes with it, also after the worker itself left."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        code = await self._process.wait()
        self.transport.close("the worker ended")
        # A grandchild that left the group may hold the pipes open: what was written is read, the rest is not awaited.
        await asyncio.wait(self._readers, timeout=TERMINATE_GRACE_S)
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*self._readers, return_exceptions=True)
        return code


async def spawn_worker(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    output: OutputLine,
    cwd: Path | None = None,
) -> WorkerProcess:
    """Start a worker with nothing inherited but its channel; its stdout and stderr arrive as lines."""
    ours, theirs = socket.socketpair()
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            cwd=cwd,
            env={**environment, CHANNEL_FD_VARIABLE: str(theirs.fileno())},
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
            limit=OUTPUT_LINE_BYTES,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    try:
        transport = await connect_socket(ours)
    except BaseException:
        ours.close()
        process.kill()
        raise
    readers = [
        asyncio.create_task(_read_lines(process.stdout, "stdout", output)),
        asyncio.create_task(_read_lines(process.stderr, "stderr", output)),
    ]
    return WorkerProcess(process, transport, readers)


async def _read_lines(pipe: asyncio.StreamReader | None, name: Literal["stdout", "stderr"], output: OutputLine) -> None:
    """Every line, each at most `OUTPUT_LINE_BYTES`: a longer one is cut, said to be cut, and skipped to its end."""
    if pipe is None:
        return
    while True:
        try:
            line = await pipe.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            if error.partial:
                output(name, error.partial.decode("utf-8", "replace"))
            return
        except asyncio.LimitOverrunError:
            head = await pipe.read(OUTPUT_LINE_BYTES)
            await _skip_line(pipe)
            output(name, head.split(b"\n")[0].decode("utf-8", "replace") + " […cut]")
            continue
        output(name, line[:-1].decode("utf-8", "replace"))


async def _skip_line(pipe: asyncio.StreamReader) -> None:
    while True:
        try:
            await pipe.readuntil(b"\n")
        except asyncio.LimitOverrunError as error:
            await pipe.readexactly(error.consumed)
        except asyncio.IncompleteReadError:
            return
        else:
            return
