"""`scripts/bench console`: the console in Chromium: first load, a streamed answer, a long timeline, a long list."""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from figures import Figure, Measured
from host_preload import preload
from host_process import PLUGINS, HostProcess, Installation, host_running

__all__ = ["measure"]

ROOT = Path(__file__).resolve().parents[1]
TALK = Path(__file__).parent / "plugins/benchtalk.py"
RUNS = 100_000
RECORDS = 10_000
RECORDS_PER_REQUEST = 250
TOKENS = 2_000


async def measure(*, quick: bool) -> Measured:
    """The host is full before the browser starts, and has no other client."""
    await _console()
    with tempfile.TemporaryDirectory(prefix="bollard-bench-") as name:
        data, out = Path(name) / "data", Path(name) / "figures.json"
        preload(data, RUNS)
        async with host_running(Installation(data=data), plugins=(*PLUGINS, TALK)) as host:
            await host.wait_for_agents("benchecho", "benchtalk")
            order = {
                "url": f"http://127.0.0.1:{host.port}",
                "token": host.headers["authorization"].removeprefix("Bearer "),
                "run": await _long_run(host),
                "tokens": TOKENS,
                "passes": 3 if quick else 7,
                "pages": 20 if quick else 100,
                "out": str(out),
            }
            await _console("run", "bench", BOLLARD_BENCH=json.dumps(order))
            measured = json.loads(await asyncio.to_thread(out.read_text, encoding="utf-8"))
    return Measured(figures=_figures(measured))


async def _long_run(host: HostProcess) -> str:
    """A run of an external program with this many records of tools."""
    asked = {"agent": "benchecho", "input": {"text": "a long day"}, "data": {"deltas": 0}, "execution": "external"}
    started = await host.ask("POST", "/api/v1/runs", asked)
    run, token = started["run_id"], {"authorization": f"Bearer {started['run_token']}"}
    for first in range(1, RECORDS + 1, RECORDS_PER_REQUEST):
        results = [_result(number) for number in range(first, first + RECORDS_PER_REQUEST)]
        await host.ask("POST", f"/api/v1/runs/{run}/results", {"results": results}, token)
    message = {"role": "assistant", "content": "That was a long day."}
    await host.ask("POST", f"/api/v1/runs/{run}/finalize", {"finish_reason": "stop", "message": message}, token)
    return run


def _result(number: int) -> dict[str, object]:
    """Odd numbers start a tool call, even ones complete it."""
    call = (number + 1) // 2
    named = {"tool_call_id": f"call_{call}", "tool_name": f"look_up_{call % 7}"}
    if number % 2:
        return {"sequence": number, "type": "tool.call.started", "data": {**named, "parameters": {"number": number}}}
    return {"sequence": number, "type": "tool.call.completed", "data": {**named, "result": f"found {number}"}}


async def _console(*command: str, **variables: str) -> None:
    """Build the console if its sources have changed, then run a command of npm there. Raises `RuntimeError`."""
    arguments = [sys.executable, str(ROOT / "scripts/console"), *command]
    process = await asyncio.create_subprocess_exec(
        *arguments, env=os.environ | variables, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)} ended with {process.returncode}\n{said.decode()}")


def _figures(measured: dict[str, Any]) -> list[Figure]:
    loads = [_figure(f"first load, {name}", kb, "kB", 350, 300) for name, kb in measured["loadKb"].items()]
    works: list[Figure] = []
    for what, name in (("stream", "2 000-token answer"), ("scroll", "timeline of 10 000 records")):
        work = measured[what]
        works.append(_figure(f"{name}, longest task", work["longestTaskMs"], "ms", 50, 25))
        works.append(_figure(f"{name}, scripting p95", work["scriptingP95Ms"], "ms/frame", 8, 4))
    interactive = _figure("interactive", measured["interactiveMs"], "ms", 1500, 500)
    return [*loads, interactive, *works, _figure("list of 100 000 runs, page p95", measured["pagesMs"], "ms", 200, 100)]


def _figure(figure: str, value: float, unit: str, must: float, aim: float) -> Figure:
    return Figure(figure=figure, value=value, unit=unit, better="lower", must=must, aim=aim)
