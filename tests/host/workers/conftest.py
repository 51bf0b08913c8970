"""Plugins as files, pools of real processes over them, and sinks for their runs."""

import asyncio
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.doubles.manual_clock import ManualClock

from bollard.host.workers.boundary import PluginSource
from bollard.host.workers.pool import PluginPool
from bollard.host.workers.worker_slot import WorkerSlot
from bollard.protocol import JsonObject
from bollard.wire import Delta, RunCall, RunEnd, RunnerCatalogue, Strike, WorkerResult

PATIENCE_S = 120.0
PARROT = """
    import asyncio, os, subprocess, sys, time
    from bollard.sdk import RunContext, runner

    @runner(name="default", label="Parrot")
    async def parrot(ctx: RunContext):
        text = ctx.input.text or ""
        if text == "die":
            os._exit(3)
        if text == "hang":
            await asyncio.Event().wait()
        if text == "block":
            os.write(2, b"blocking\\n")
            time.sleep(600)
        if text == "spawn":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
            yield ctx.delta(str(child.pid))
            await asyncio.Event().wait()
        if text == "yes":
            subprocess.Popen(["yes"])
        if text == "stubborn":
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    pass
        if text.startswith("env "):
            text = os.environ.get(text[4:], "absent")
        yield ctx.delta(text)
"""


MANIFEST = """
apiVersion: bollard/v1
kind: Plugin
metadata: {{author: local, name: {name}, version: 1.0.0, label: {{en_US: Parrot}}}}
spec:
  env: {env}
  runners:
    - {{name: default, label: {{en_US: Parrot}}, entry: "runner:parrot"}}
"""


class Sink:
    """A run's owner that records its notifications."""

    def __init__(self) -> None:
        self.text = ""
        self.results: list[str] = []
        self.end: asyncio.Future[RunEnd] = asyncio.get_running_loop().create_future()
        self._came = asyncio.Event()

    def delta(self, delta: Delta, size: int) -> None:
        self.text += delta.text
        self._came.set()

    def result(self, result: WorkerResult) -> None:
        self.results.append(result.type)

    def gap(self, first: int, last: int) -> None: ...

    def refused(self, sequence: int, why: str) -> None: ...

    def called(self, call: RunCall) -> None: ...

    def crowded(self, call: RunCall, times: int) -> None: ...

    def struck(self, strike: Strike) -> None: ...

    def ended(self, end: RunEnd) -> None:
        if not self.end.done():
            self.end.set_result(end)

    def flush(self) -> None: ...

    async def spoke(self) -> str:
        await asyncio.wait_for(self._came.wait(), PATIENCE_S)
        return self.text

    async def over(self) -> RunEnd:
        return await asyncio.wait_for(asyncio.shield(self.end), PATIENCE_S)


class Pools:
    """Pools of plugins that tests write."""

    def __init__(self, folder: Path, clock: ManualClock) -> None:
        self.folder = folder
        self.clock = clock
        self.opened: list[PluginPool] = []
        self.catalogues: list[tuple[str, list[str]]] = []
        self.found = asyncio.Event()
        self._runs = 0

    def write(self, name: str, code: str) -> Path:
        path = self.folder / f"{name}.py"
        path.write_text(textwrap.dedent(code), encoding="utf-8")
        return path

    def write_folder(self, name: str, code: str, env: list[str]) -> Path:
        folder = self.folder / name
        folder.mkdir()
        (folder / "runner.py").write_text(textwrap.dedent(code), encoding="utf-8")
        (folder / "manifest.yaml").write_text(MANIFEST.format(name=name, env=env), encoding="utf-8")
        return folder

    def open(self, name: str = "parrot", code: str = PARROT, **more: Any) -> PluginPool:
        return self._open(name, self.write(name, code), **more)

    def open_folder(self, name: str = "parrot", code: str = PARROT, *, env: list[str]) -> PluginPool:
        return self._open(name, self.write_folder(name, code, env))

    def _open(self, name: str, path: Path, **more: Any) -> PluginPool:
        limits = {key: more.pop(key) for key in ("start_s", "restart_s", "violated") if key in more}
        source = PluginSource(name=name, path=path, **more)
        pool = PluginPool(
            source,
            self.clock,
            host_version="test",
            discovered=lambda identity, catalogue, tools: self._discovered(name, catalogue),
            **{"restart_s": 0.01, **limits},
        )
        self.opened.append(pool)
        pool.start()
        return pool

    def _discovered(self, name: str, catalogue: RunnerCatalogue) -> None:
        self.catalogues.append((name, [runner.manifest.id for runner in catalogue.runners]))
        self.found.set()

    def run(self, slot: WorkerSlot, text: str, name: str = "parrot") -> Sink:
        self._runs += 1
        run_id = f"run_{self._runs}"
        request: JsonObject = {
            "runner_id": f"plugin:local/{name}/default",
            "runner_name": "default",
            "context": {
                "run_id": run_id,
                "trigger": {"type": "message.received", "source": "api"},
                "event": {"event_id": "e", "event_type": "message.received", "source": "api", "data": {}},
                "input": {"text": text},
                "delivery": {"surface": "api"},
                "resources": {},
                "context": {"inline_policy": {"mode": "none", "delivered_count": 0}, "available_apis": {}},
                "state": {},
                "runtime": {},
                "config": {},
            },
        }
        sink = Sink()
        slot.start_run(run_id, request, sink)
        return sink


@pytest.fixture
async def pools(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Pools]:
    made = Pools(tmp_path, clock)
    yield made
    for pool in made.opened:
        await pool.stop(0)


@pytest.fixture
def gone() -> Callable[[int], None]:
    """Fails while a process lives; waits for its end, not for a time."""

    def check(pid: int) -> None:
        try:
            psutil.Process(pid).wait(30)
        except psutil.NoSuchProcess:
            return

    return check
