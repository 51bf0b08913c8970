"""Drives one HTTP server with server-sent events with a fixed number of clients, and reports the results.

The hot path uses no SSE or JSON library: the client only looks for byte marks, so that its own cost stays far below the
server's. A `Target` defines the requests and the marks of their answers.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Call", "Connection", "Load", "Target", "drive"]

RUN_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, and the marks of its answer. The final mark must be there, and as many delta marks as deltas."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    delta_mark: bytes
    final_mark: bytes


class Target(Protocol):
    """A server under load."""

    @property
    def port(self) -> int: ...

    def call(self, client: int, deltas: int) -> Call:
        """The request of this client for a run with this many deltas."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One completely answered run. Times are seconds since its request."""

    first_delta: float
    total: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The result of one cell of load."""

    samples: list[Sample]
    errors: list[str]
    wall_s: float
    deltas: int
    """Deltas of each run."""

    @property
    def runs_per_s(self) -> float:
        return len(self.samples) / self.wall_s

    @property
    def deltas_per_s(self) -> float:
        return len(self.samples) * self.deltas / self.wall_s

    def latency_ms(self, share: float) -> float:
        return _at([sample.total for sample in self.samples], share) * 1000

    def first_delta_ms(self, share: float) -> float:
        return _at([sample.first_delta for sample in self.samples], share) * 1000


def _at(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Connection:
    """A minimal HTTP/1.1 client on one kept-alive connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> tuple[int, AsyncGenerator[bytes]]:
        """The status and the body as it arrives."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
        reader, writer = self._streams
        fields = {"host": f"127.0.0.1:{self._port}", "content-length": str(len(body)), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        raw = await reader.readuntil(b"\r\n\r\n")
        status_line, *lines = raw.decode("latin1").strip().split("\r\n")
        answered = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return int(status_line.split()[1]), self._body(reader, answered)

    async def _body(self, reader: asyncio.StreamReader, fields: Mapping[str, str]) -> AsyncGenerator[bytes]:
        if fields.get("transfer-encoding", "").lower() == "chunked":
            while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
                yield (await reader.readexactly(size + 2))[:-2]
            await reader.readexactly(2)
        elif left := int(fields.get("content-length", "0")):
            yield await reader.readexactly(left)
        if fields.get("connection", "").lower() == "close":
            self.close()


async def _one_run(connection: Connection, call: Call, deltas: int) -> Sample | str:
    """A sample, or the error."""
    first_delta: float | None = None
    seen, final, last = 0, False, b""
    started = time.perf_counter()
    try:
        status, chunks = await connection.request("POST", call.path, call.headers, call.body)
        async for chunk in chunks:
            count = chunk.count(call.delta_mark)
            if count and first_delta is None:
                first_delta = time.perf_counter() - started
            seen += count
            final = final or call.final_mark in chunk
            last = chunk
    except (OSError, asyncio.IncompleteReadError) as error:
        connection.close()
        return f"{type(error).__name__}: {error}"
    total = time.perf_counter() - started
    if status >= 400 or not final or first_delta is None or seen != deltas:
        return f"status {status}, {seen} of {deltas} deltas, final {final}: {last[-300:]!r}"
    return Sample(first_delta=first_delta, total=total)


async def drive(
    target: Target, *, clients: int, deltas: int, seconds: float | None = None, runs: int | None = None
) -> Load:
    """Keep `clients` busy for this many seconds, or until this many runs were made, after one untimed run each."""
    connections = [Connection(target.port) for _ in range(clients)]
    warm = await asyncio.gather(*(_one_run(connections[i], target.call(i, 2), 2) for i in range(clients)))
    outcomes: list[Sample | str] = [outcome for outcome in warm if isinstance(outcome, str)]
    left = runs if runs is not None else 1 << 60
    started = time.perf_counter()
    until = started + (seconds if seconds is not None else float("inf"))

    async def client(number: int) -> None:
        nonlocal left
        while left > 0 and time.perf_counter() < until:
            left -= 1
            run = _one_run(connections[number], target.call(number, deltas), deltas)
            try:
                outcomes.append(await asyncio.wait_for(run, RUN_TIMEOUT_S))
            except TimeoutError:
                connections[number].close()
                outcomes.append(f"no answer within {RUN_TIMEOUT_S} s")

    await asyncio.gather(*(client(number) for number in range(clients)))
    wall_s = time.perf_counter() - started
    for connection in connections:
        connection.close()
    return Load(
        samples=[outcome for outcome in outcomes if isinstance(outcome, Sample)],
        errors=[outcome for outcome in outcomes if isinstance(outcome, str)],
        wall_s=wall_s,
        deltas=deltas,
    )
