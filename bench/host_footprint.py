"""The cost of an almost idle host: its start, its memory, its idle readers, and the memory that many runs leave."""

import asyncio
import resource
import socket
from collections.abc import Iterable
from pathlib import Path

from figures import Figure, median
from host_process import HostProcess, Installation, host_running
from load import drive

__all__ = ["growth_over_runs", "idle_memory", "idle_readers", "start_times", "stuck_readers"]

AT_ONCE = 100
SPARE_FILES = 200
WARM_RUNS = 1_000
GROWTH_RUNS = 10_000
STUCK_READERS = 200
STUCK_RUN_BYTES = 40_000_000
STUCK_DELTA_BYTES = 1024
SETTLED_S = 0.5
SETTLED_MIB = 1
SETTLED_LOOKS = 3


async def start_times(directory: Path, *, passes: int) -> list[Figure]:
    """A first start creates the schema and the keys; later starts find them."""
    ready: list[float] = []
    agents: list[float] = []
    loop = asyncio.get_running_loop()
    installed = Installation(data=directory)
    async with host_running(installed) as host:
        first = host.ready_s
    for _ in range(passes):
        started = loop.time()
        async with host_running(installed) as host:
            ready.append(host.ready_s)
            await host.wait_for_agents("benchecho")
            agents.append(loop.time() - started)
    return [
        Figure(figure="exec to ready", value=median(ready), unit="s", better="lower", must=1.5, aim=0.8),
        Figure(figure="exec to ready, first start", value=first, unit="s", better="lower", must=None, aim=None),
        Figure(figure="exec to first agent", value=median(agents), unit="s", better="lower", must=None, aim=None),
    ]


def idle_memory(host: HostProcess) -> Figure:
    """Before any run."""
    return Figure(figure="host RSS, idle", value=host.rss_mib(), unit="MiB", better="lower", must=110, aim=80)


async def growth_over_runs(host: HostProcess) -> Figure:
    """The memory that 10 000 runs leave, after the first thousand have filled every cache and pool. Uses a fresh host:
    a host that has freed much memory would hide it."""
    await drive(host, clients=16, deltas=10, runs=WARM_RUNS)
    before = host.rss_mib()
    load = await drive(host, clients=16, deltas=10, runs=GROWTH_RUNS)
    if load.errors:
        raise RuntimeError(f"{len(load.errors)} errors, the first: {load.errors[0]}")
    return Figure(
        figure="host RSS growth, 10 000 runs",
        value=host.rss_mib() - before,
        unit="MiB",
        better="lower",
        must=10,
        aim=5,
        scope="full",
    )


async def idle_readers(host: HostProcess, count: int) -> Figure:
    """The memory of clients that all follow one run in which nothing happens. On a fresh host, as above."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < count + SPARE_FILES:
        raise RuntimeError(f"{count} readers need {count + SPARE_FILES} open files, the limit is {most} (`ulimit -Hn`)")
    run_id = await host.start_run("benchecho.wait")
    await host.wait_for(run_id, "running")
    warm = await asyncio.to_thread(_subscribe, host, run_id, AT_ONCE)
    before = host.rss_mib()
    readers = await asyncio.to_thread(_subscribe, host, run_id, count)
    after = host.rss_mib()
    connected = (await host.ask("GET", "/readyz"))["readers"]
    _leave([*warm, *readers])
    await host.cancel(run_id)
    if connected != count + AT_ONCE:
        raise RuntimeError(f"{connected} of {count + AT_ONCE} readers are connected")
    return Figure(
        figure=f"memory per idle SSE client, {count}",
        value=(after - before) * 1024 / count,
        unit="KiB",
        better="lower",
        must=24,
        aim=18,
        scope="quick" if count <= 1_000 else "full",
    )


async def stuck_readers(host: HostProcess) -> list[Figure]:
    """The memory of clients that request the stream of a finished run of 40 MB and read nothing: while they are
    connected, and after they have left. On a fresh host, as above."""
    run_id = await host.start_run("benchflood.ending", bytes=STUCK_RUN_BYTES, delta_bytes=STUCK_DELTA_BYTES, pause_s=0)
    await host.wait_for(run_id, "completed")
    before = await _settled_mib(host)
    request = _stream_request(host, run_id)
    readers = [socket.create_connection(("127.0.0.1", host.port), 30) for _ in range(STUCK_READERS)]
    for reader in readers:
        reader.sendall(request)
    during = await _settled_mib(host)
    _leave(readers)
    after = await _settled_mib(host)
    return [
        Figure(
            figure="memory per non-reading reader",
            value=(during - before) / STUCK_READERS,
            unit="MiB",
            better="lower",
            must=4,
            aim=1,
        ),
        Figure(
            figure=f"RSS that {STUCK_READERS} such readers leave",
            value=after - before,
            unit="MiB",
            better="lower",
            must=96,
            aim=32,
        ),
    ]


async def _settled_mib(host: HostProcess) -> float:
    """Resident memory once it is stable: the cost of readers appears with a delay."""
    newest = [host.rss_mib()]
    while len(newest) < SETTLED_LOOKS or max(newest) - min(newest) > SETTLED_MIB:
        await asyncio.sleep(SETTLED_S)
        newest = [*newest, host.rss_mib()][-SETTLED_LOOKS:]
    return newest[-1]


def _stream_request(host: HostProcess, run_id: str) -> bytes:
    fields = "".join(f"{name}: {value}\r\n" for name, value in host.headers.items())
    return f"GET /api/v1/runs/{run_id}/stream HTTP/1.1\r\nhost: 127.0.0.1\r\n{fields}\r\n".encode()


def _subscribe(host: HostProcess, run_id: str, count: int) -> list[socket.socket]:
    """Clients that have each received the delta of the run: plain sockets, because they are cheap here too."""
    request = _stream_request(host, run_id)
    readers: list[socket.socket] = []
    while len(readers) < count:
        some = [
            socket.create_connection(("127.0.0.1", host.port), 30) for _ in range(min(AT_ONCE, count - len(readers)))
        ]
        for reader in some:
            reader.sendall(request)
        for reader in some:
            seen = b""
            while b"waiting" not in seen:
                data = reader.recv(1 << 16)
                if not data:
                    raise RuntimeError(f"a reader was refused: {seen!r}")
                seen += data
        readers += some
    return readers


def _leave(readers: Iterable[socket.socket]) -> None:
    for reader in readers:
        reader.close()
