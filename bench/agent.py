"""`scripts/bench agent`: the overhead of the host on model calls, and the speed of retrieval."""

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_knowledge import measure_knowledge, measure_on_postgres
from agent_provider import LoopbackProvider, provider_running
from figures import Figure, Measured, median
from host_process import HostProcess, Installation, host_running
from load import Call, Connection, drive

__all__ = ["measure"]

ROOT = Path(__file__).parent.parent
PLUGINS = (ROOT / "bench" / "plugins" / "benchmodel.py", ROOT / "plugins" / "local-agent")
AGENTS = ("benchmodel", "benchmodel.turns", "assistant")
TOOL_TURNS = 20
"""Turns of one run of the local agent that call a tool."""
RATES = (1000, 5000)
"""Tokens a second of the provider."""


async def measure(*, quick: bool) -> Measured:
    """Every figure of the agent. The full run adds knowledge on PostgreSQL, which takes minutes to fill."""
    figures: list[Figure] = []
    missing: list[str] = []
    with tempfile.TemporaryDirectory(prefix="bollard-bench-") as name:
        folders = [Path(name) / "host", Path(name) / "knowledge", Path(name) / "postgres"]
        for folder in folders:
            folder.mkdir()
        async with provider_running() as provider:
            figures += await _models(folders[0], provider, quick=quick)
        figures += await measure_knowledge(folders[1], quick=quick)
        if not quick:
            measured = await measure_on_postgres(folders[2])
            figures += measured.figures
            missing += measured.missing
    return Measured(figures=figures, missing=missing)


async def _models(data: Path, provider: LoopbackProvider, *, quick: bool) -> list[Figure]:
    variables = {"OPENAI_BASE_URL": provider.url, "OPENAI_API_KEY": "none", "OPENAI_MODEL": "loopback"}
    async with host_running(Installation(data=data), plugins=PLUGINS, variables=variables) as host:
        await host.wait_for_agents(*AGENTS)
        figures = [
            await _turns(host, provider, passes=3 if quick else 9, turns=60 if quick else 200),
            await _tool_turns(host, passes=5 if quick else 25),
        ]
        figures += [await _tokens(host, provider, rate=rate, passes=3 if quick else 7) for rate in RATES]
    return figures


async def _turns(host: HostProcess, provider: LoopbackProvider, *, passes: int, turns: int) -> Figure:
    """Both in turn, each answer one short sentence; the difference is the overhead of a turn."""
    await _median_turn(host, 5)  # load everything that is loaded once
    over: list[float] = []
    for _ in range(passes):
        direct = median([await provider.turn_s("hi") for _ in range(turns)])
        over.append(await _median_turn(host, turns) - direct)
    return Figure(
        figure="overhead per model turn p50", value=median(over) * 1000, unit="ms", better="lower", must=5.0, aim=2.5
    )


async def _median_turn(host: HostProcess, turns: int) -> float:
    """The time that the runner sees."""
    said = await _streamed(host, {"agent": AGENTS[1], "input": {"text": "hi"}, "data": {"turns": turns}})
    if b"MEDIAN=" not in said:
        raise RuntimeError(f"a run of turns went wrong: {said[-600:]!r}")
    return float(said.split(b"MEDIAN=")[1].split(b'"')[0].split(b"\\")[0])


async def _streamed(host: HostProcess, asked: dict[str, Any]) -> bytes:
    """All text of the stream of one run."""
    connection = Connection(host.port)
    headers = {**host.headers, "accept": "text/event-stream"}
    _, chunks = await connection.request("POST", "/api/v1/runs", headers, json.dumps(asked).encode())
    said = b"".join([chunk async for chunk in chunks])
    connection.close()
    return said


async def _tool_turns(host: HostProcess, *, passes: int) -> Figure:
    """The whole time of a turn of the local agent: the model names a tool, the tool is called, and the loop
    continues."""
    policy = {"access": {"permissions": {"models": ["stream"], "tools": ["detail", "call"], "history": ["page"]}}}
    config: dict[str, Any] = {
        "model": {"primary": "openai", "fallbacks": []},
        "tools": ["tool:local/benchmodel/nothing"],
    }
    agent = {"runner_id": "plugin:bollard/local-agent/default", "config": config, "policy": policy}
    await host.ask("PUT", "/api/v1/agents/bench", agent)
    calls = "\n".join(f'then call nothing {{"n": {number}}}' for number in range(TOOL_TURNS))
    taken: list[float] = []
    for _ in range(passes + 1):
        bare = await _run_s(host, "hi", b"You said: hi")
        taken.append((await _run_s(host, calls, b"nothing was done for") - bare) / TOOL_TURNS)
    return Figure(
        figure="local-agent turn with a tool p50",
        value=median(taken[1:]) * 1000,  # the first turn of the agent is not counted
        unit="ms",
        better="lower",
        must=None,
        aim=None,
    )


async def _run_s(host: HostProcess, text: str, answer: bytes) -> float:
    started = time.perf_counter()
    said = await _streamed(host, {"agent": "bench", "input": {"text": text}})
    if answer not in said or b'"status":"completed"' not in said:
        raise RuntimeError(f"a run of the local agent went wrong: {said[-600:]!r}")
    return time.perf_counter() - started


@dataclass(frozen=True, slots=True, kw_only=True)
class _AtRate:
    """The provider, or the host in front of it, with a provider of a fixed rate."""

    target: HostProcess | LoopbackProvider
    rate: int

    @property
    def port(self) -> int:
        return self.target.port

    def call(self, client: int, deltas: int) -> Call:
        del client
        text = f"stream {deltas} at {self.rate}"
        if isinstance(self.target, LoopbackProvider):
            return self.target.call_for(text)
        return Call(
            path="/api/v1/runs",
            headers={**self.target.headers, "accept": "text/event-stream"},
            body=json.dumps({"agent": AGENTS[0], "input": {"text": text}}).encode(),
            delta_mark=b'"content":"tok-',
            final_mark=b'"status":"completed"',
        )


async def _tokens(host: HostProcess, provider: LoopbackProvider, *, rate: int, passes: int) -> Figure:
    """One client; each answer takes a second, one after the other."""
    direct: list[float] = []
    through: list[float] = []
    for _ in range(passes):
        for target, rates in ((provider, direct), (host, through)):
            load = await drive(_AtRate(target=target, rate=rate), clients=1, deltas=rate, runs=1)
            if load.errors:
                raise RuntimeError(f"a stream at {rate} tokens/s went wrong: {load.errors[0]}")
            rates.append(rate / load.samples[0].total)
    return Figure(
        figure=f"streamed tokens/s, provider at {rate}",
        value=median(through),
        floor=median(direct),
        unit="tokens/s",
        better="higher",
        must=0.5,
        aim=0.9,
    )
