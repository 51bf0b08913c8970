"""Counts of runs by hour and agent: outcomes, failures, tokens, cost, and the time to the first delta.

An hour that has passed, and whose runs have all ended, is counted once and stays in memory. One request counts a
limited number of runs, the newest first; the next request goes on.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from bollard.host.limits import OVERVIEW_CACHED_HOURS, OVERVIEW_RUNS, OVERVIEW_SAMPLE
from bollard.host.store.delta_spans import first_time
from bollard.host.store.queries import CountedRun
from bollard.host.store.rows import ENDED
from bollard.host.store.store import Store

HOUR_MS: Final = 3_600_000
FAILED: Final = frozenset({"failed", "timeout"})


class _Usage(msgspec.Struct, frozen=True, gc=False):
    total_tokens: int = 0
    cost: dict[str, float] = {}


_usage: Final = msgspec.json.Decoder(_Usage).decode


@dataclass(slots=True)
class Failure:
    """Failed runs with one code."""

    count: int = 0
    last_run_id: str = ""
    last_ms: int = 0

    def add(self, other: "Failure") -> None:
        self.count += other.count
        if (other.last_ms, other.last_run_id) > (self.last_ms, self.last_run_id):
            self.last_ms, self.last_run_id = other.last_ms, other.last_run_id


@dataclass(slots=True)
class AgentTally:
    """The runs of one agent."""

    statuses: Counter[str] = field(default_factory=Counter[str])
    failures: dict[str, Failure] = field(default_factory=dict[str, Failure])
    tokens: int = 0
    cost: dict[str, float] = field(default_factory=dict[str, float])
    """By currency."""
    first_delta_ms: list[int] = field(default_factory=list[int])
    """Of a sample of the newest runs."""

    def count(self, run: CountedRun) -> None:
        self.statuses[run.status if run.status in ENDED else "active"] += 1
        if run.status in FAILED:
            code = run.reason or run.status
            self.failures.setdefault(code, Failure()).add(Failure(1, run.run_id, run.created_ms))
        if run.usage is not None:
            usage = _usage(run.usage)
            self.tokens += usage.total_tokens
            for currency, spent in usage.cost.items():
                self.cost[currency] = self.cost.get(currency, 0.0) + spent

    def add(self, other: "AgentTally") -> None:
        self.statuses.update(other.statuses)
        self.tokens += other.tokens
        for currency, spent in other.cost.items():
            self.cost[currency] = self.cost.get(currency, 0.0) + spent
        self.first_delta_ms += other.first_delta_ms
        for code, failure in other.failures.items():
            self.failures.setdefault(code, Failure()).add(failure)


class HourTally(msgspec.Struct, frozen=True):
    """The runs that were created in one hour, by agent."""

    start_ms: int
    agents: dict[str, AgentTally]

    def total(self, sees: Callable[[str], bool]) -> AgentTally:
        """The runs of the agents that a reader sees."""
        total = AgentTally()
        for agent_id, tally in self.agents.items():
            if sees(agent_id):
                total.add(tally)
        return total


def percentile(values: Sequence[int], share: float) -> int | None:
    """The smallest value that is not below this share of the values. Pure."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


class RunTallies:
    """Counts the runs of workspaces. Its methods block."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._ended: dict[tuple[str, int], HourTally] = {}

    def hours(self, workspace: str, now_ms: int, count: int) -> tuple[list[HourTally], bool]:
        """The newest hours, oldest first, and whether all of them were counted within the limit of one request."""
        found, left = list[HourTally](), OVERVIEW_RUNS
        newest = now_ms - now_ms % HOUR_MS
        for start_ms in range(newest, newest - count * HOUR_MS, -HOUR_MS):
            known = self._ended.get((workspace, start_ms))
            if known is None:
                if left <= 0:
                    return found[::-1], False
                runs = self._store.counted_runs(workspace, start_ms, start_ms + HOUR_MS)
                left -= len(runs)
                known = self._counted(start_ms, runs)
                if start_ms < newest and all(run.status in ENDED for run in runs):
                    self._keep(workspace, known)
            found.append(known)
        return found[::-1], True

    def _counted(self, start_ms: int, runs: Sequence[CountedRun]) -> HourTally:
        agents = {agent_id: AgentTally() for agent_id in {run.agent_id for run in runs}}
        for run in runs:
            agents[run.agent_id].count(run)
        sampled = {run.run_id: run for run in runs[-OVERVIEW_SAMPLE:]}
        for run_id, created_ms, spans in self._store.first_deltas(sampled) if sampled else ():
            waited_ms = max(0, first_time(created_ms, spans) - sampled[run_id].created_ms)
            agents[sampled[run_id].agent_id].first_delta_ms.append(waited_ms)
        return HourTally(start_ms, agents)

    def _keep(self, workspace: str, tally: HourTally) -> None:
        if len(self._ended) >= OVERVIEW_CACHED_HOURS:
            del self._ended[next(iter(self._ended))]
        self._ended[workspace, tally.start_ms] = tally


def by_agent(hours: Iterable[HourTally]) -> dict[str, AgentTally]:
    """The totals of each agent."""
    agents: dict[str, AgentTally] = {}
    for hour in hours:
        for agent_id, tally in hour.agents.items():
            agents.setdefault(agent_id, AgentTally()).add(tally)
    return agents
