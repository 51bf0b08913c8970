"""Lists and timelines, read page by page over one kept-alive connection; the time is the client's own."""

import json
import time
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import quote

from figures import Figure, median
from host_process import HostProcess
from load import Connection

__all__ = ["measure_reads"]

MUST_MS = 10.0
AIM_MS = 3.0
LIMIT = 50
SPREAD = 25
"""Runs and conversations whose timelines are read in turn, so that none of them stays in memory."""


class _Reader:
    """A client that records the duration of each read."""

    def __init__(self, host: HostProcess) -> None:
        self._connection = Connection(host.port)
        self._headers = host.headers

    async def read(self, path: str) -> tuple[float, Any]:
        started = time.perf_counter()
        status, chunks = await self._connection.request("GET", f"/api/v1{path}", self._headers)
        text = b"".join([chunk async for chunk in chunks])
        took = time.perf_counter() - started
        if status != 200:
            raise RuntimeError(f"GET {path}: {status} {text.decode()}")
        return took, json.loads(text)

    async def pages(self, path: str, count: int) -> AsyncGenerator[tuple[float, Any]]:
        """A list page by page, and again from its start at the end."""
        cursor = ""
        for _ in range(count):
            took, page = await self.read(f"{path}{'&' if '?' in path else '?'}limit={LIMIT}{cursor}")
            yield took, page
            following = page.get("next_cursor")
            cursor = f"&cursor={quote(following)}" if following else ""

    def close(self) -> None:
        self._connection.close()


async def measure_reads(host: HostProcess, *, reads: int, rows: int, quick: bool, on: str = "") -> list[Figure]:
    """p50 of each kind of read."""
    reader = _Reader(host)
    try:
        _, newest = await reader.read(f"/runs?limit={SPREAD}")
        runs = [run["run_id"] for run in newest["items"]]
        places = sorted({run["conversation_id"] for run in newest["items"]})
        lists = {
            "runs": "/runs",
            "runs of an agent": "/runs?agent=benchecho",
            "runs by status": "/runs?status=completed",
            "runs of a conversation": f"/runs?conversation={places[0]}",
            "events": "/events",
            "conversations": "/conversations",
        }
        found = {what: [took async for took, _ in reader.pages(path, reads)] for what, path in lists.items()}
        timelines = {
            "records of a run": [f"/runs/{run}/records" for run in runs],
            "one run": [f"/runs/{run}" for run in runs],
            "messages of a conversation": [f"/conversations/{place}/messages" for place in places],
        }
        for what, paths in timelines.items():
            found[what] = [(await reader.read(paths[count % len(paths)]))[0] for count in range(reads)]
    finally:
        reader.close()
    return [
        Figure(
            figure=f"{on}{what}, p50 over {rows:,} rows",
            value=median(times) * 1000,
            unit="ms",
            better="lower",
            must=MUST_MS,
            aim=AIM_MS,
            scope="quick" if quick else "full",
        )
        for what, times in found.items()
    ]
