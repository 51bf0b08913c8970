"""The floor of the host figures: a run with durability and an out-of-process runner, and nothing else.

    POST /echo {"n": N}

1. the run is committed (SQLite, WAL, synchronous=FULL, group commit) before anything is streamed;
2. a child process that is always there streams N deltas as JSON lines, one flush each;
3. every delta is journalled (in batches, not waited for); frames that are ready together leave in one send;
4. the final message leaves after its commit, and with it every delta of the run.

Not a host: no authentication, cancellation, replay, limits or projections. It shows what those four guarantees cost
by themselves on this machine. Served by uvicorn in a process of its own, with its file in the current directory.
"""

import asyncio
import queue
import sqlite3
import sys
import threading
from collections.abc import Iterable
from typing import Any

import msgspec

__all__ = ["app"]

_RUNNER = r"""
import sys, msgspec
enc, dec, w = msgspec.json.Encoder(), msgspec.json.Decoder(), sys.stdout.buffer
for line in iter(sys.stdin.buffer.readline, b""):
    m = dec.decode(line)
    for i in range(m["n"]):
        w.write(enc.encode({"id": m["id"], "delta": "tok-%06d " % i}) + b"\n"); w.flush()
    w.write(enc.encode({"id": m["id"], "final": "FINAL-ANSWER"}) + b"\n"); w.flush()
"""

Row = tuple[int, int, bytes]


class _Asked(msgspec.Struct):
    n: int


class _Said(msgspec.Struct):
    id: int
    delta: str | None = None
    final: str | None = None


class _Journal(threading.Thread):
    """One writer thread; whatever queued up during a commit shares the next one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(daemon=True)
        self._loop = loop
        self._queue: queue.SimpleQueue[tuple[list[Row], asyncio.Future[None] | None]] = queue.SimpleQueue()

    def append(self, rows: list[Row]) -> None:
        self._queue.put((rows, None))

    async def commit(self, rows: list[Row]) -> None:
        done: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((rows, done))
        await done

    def run(self) -> None:
        database = sqlite3.connect("floor.db", isolation_level=None)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE ev(run INTEGER, seq INTEGER, body BLOB, PRIMARY KEY(run, seq)) WITHOUT ROWID")
        while True:
            batch = [self._queue.get()]
            while len(batch) < 5000:
                try:
                    batch.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            database.execute("BEGIN IMMEDIATE")
            database.executemany("INSERT INTO ev VALUES(?,?,?)", [row for rows, _ in batch for row in rows])
            database.execute("COMMIT")
            if waiting := [done for _, done in batch if done is not None]:
                self._loop.call_soon_threadsafe(_resolve, waiting)


def _resolve(waiting: Iterable[asyncio.Future[None]]) -> None:
    for done in waiting:
        if not done.done():
            done.set_result(None)


class _Floor:
    """The running child, the journal, and the runs."""

    def __init__(self) -> None:
        self._runs: dict[int, tuple[list[tuple[_Said, bytes]], asyncio.Event]] = {}
        self._newest = 0
        self._decode = msgspec.json.Decoder(_Said).decode
        self._encode = msgspec.json.Encoder().encode
        self._asked = msgspec.json.Decoder(_Asked).decode

    async def start(self) -> None:
        self._journal = _Journal(asyncio.get_running_loop())
        self._journal.start()
        self._child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _RUNNER, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 20
        )
        if self._child.stdin is None or self._child.stdout is None:
            raise RuntimeError("no pipes")
        self._to_child, self._from_child = self._child.stdin, self._child.stdout
        self._pumping = asyncio.create_task(self._pump())

    async def stop(self) -> None:
        self._to_child.close()
        await self._child.wait()

    async def _pump(self) -> None:
        tail = b""
        while data := await self._from_child.read(1 << 16):
            *lines, tail = (tail + data).split(b"\n")
            touched: dict[int, list[tuple[_Said, bytes]]] = {}
            for line in lines:
                said = self._decode(line)
                touched.setdefault(said.id, []).append((said, line))
            for run, items in touched.items():
                pending, ready = self._runs[run]
                pending.extend(items)
                ready.set()

    async def echo(self, body: bytes, send: Any) -> None:
        count = self._asked(body).n
        self._newest += 1
        run = self._newest
        pending: list[tuple[_Said, bytes]] = []
        ready = asyncio.Event()
        self._runs[run] = (pending, ready)
        await self._journal.commit([(run, 0, body)])
        self._to_child.write(self._encode({"id": run, "n": count}) + b"\n")
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        opening = b'event: metadata\ndata: {"run_id":%d}\n\n' % run
        await send({"type": "http.response.body", "body": opening, "more_body": True})
        seq, done = 0, False
        while not done:
            await ready.wait()
            ready.clear()
            items = pending[:]
            pending.clear()
            rows: list[Row] = []
            frames: list[bytes] = []
            for said, line in items:
                seq += 1
                rows.append((run, seq, line))
                frames.append(b"data: " + line + b"\n\n")
                done = done or said.final is not None
            if done:
                await self._journal.commit(rows)
            else:
                self._journal.append(rows)
            await send({"type": "http.response.body", "body": b"".join(frames), "more_body": not done})
        del self._runs[run]


_floor = _Floor()


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await receive()
        await _floor.start()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await _floor.stop()
        await send({"type": "lifespan.shutdown.complete"})
        return
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    if scope["method"] == "POST":
        await _floor.echo(body, send)
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})
