"""The front gates: who may talk to an agent, how often, and how many runs it may have. A refusal is data, not an error.

Rates use monotonic time. Only the daily budget uses the wall clock.
"""

import math
from hashlib import sha256
from typing import Final, Literal

import msgspec

from bollard.host.agents.agent import Agent
from bollard.host.agents.names import ID_CHARACTERS, Names, own_names
from bollard.host.agents.policies import BudgetPolicy
from bollard.host.agents.rates import Rates
from bollard.host.scope import Actor

DAY_MS: Final = 24 * 3600 * 1000
DAYS_KEPT: Final = 2
"""Days whose run counts are kept for an agent, so that a clock set back over midnight finds the old count."""


class GatesPassed(msgspec.Struct, frozen=True):
    """All gates are open. If the agent limits rates, a token was consumed."""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A gate is closed. The caller makes the error."""

    code: Literal["unauthorized", "rate_limited", "budget_exceeded"]
    reason: str
    sentence: str
    hint: str
    details: dict[str, str | int]
    retry_after_s: float | None = None
    """When a retry may succeed. `None` if time alone does not help, or the time is unknown."""


def utc_day(now_ms: int) -> int:
    """The UTC day of a moment, counted from the epoch."""
    return now_ms // DAY_MS


class FrontGates:
    """Judges events by the policy of their agent. Holds the run counts and the rates of each agent."""

    def __init__(self, names: Names = own_names) -> None:
        """`names` returns the names that rules may use for an actor."""
        self._names = names
        self._rates: dict[tuple[str, str], Rates[tuple[str, ...]]] = {}
        self._runs: dict[tuple[str, str], dict[int, int]] = {}

    def seed(self, agent_id: str, day: int, count: int, *, workspace: str) -> None:
        """Set the stored run count of an agent on a UTC day. Called at startup."""
        days = self._runs.setdefault((workspace, agent_id), {})
        days[day] = count
        while len(days) > DAYS_KEPT:
            del days[max(days, key=lambda other: abs(other - day))]

    def count(self, agent_id: str, now_ms: int, *, workspace: str) -> None:
        """Count a committed run of the agent."""
        day = utc_day(now_ms)
        self.seed(agent_id, day, self.runs_of_day(agent_id, day, workspace=workspace) + 1, workspace=workspace)

    def runs_of_day(self, agent_id: str, day: int, *, workspace: str) -> int:
        """The run count of an agent on a UTC day."""
        return self._runs.get((workspace, agent_id), {}).get(day, 0)

    def forget(self, agent_id: str, *, workspace: str) -> None:
        """Drop the counts of a deleted agent."""
        self._rates.pop((workspace, agent_id), None)
        self._runs.pop((workspace, agent_id), None)

    def judge(
        self,
        agent: Agent,
        actor: Actor | None,
        now_mono: float,
        now_ms: int,
        live_runs_of_agent: int,
        *,
        new_run: bool = True,
        uncounted: int = 0,
        takes: bool = True,
    ) -> GatesPassed | Refused:
        """Judge an event of this actor. The rate comes last because it consumes a token, unless `takes` is false.

        `live_runs_of_agent` are the runs that would execute beside a new one. `uncounted` are runs that passed the
        gates and are not committed yet; the daily budget includes them. A message that steers sets `new_run` to false
        and skips the budgets.
        """
        refusal = self.look(agent, actor, now_ms, live_runs_of_agent, new_run=new_run, uncounted=uncounted)
        if refusal is None:
            refusal = self._rate(agent, actor, now_mono, takes=takes)
        return GatesPassed() if refusal is None else refusal

    def look(
        self,
        agent: Agent,
        actor: Actor | None,
        now_ms: int,
        live_runs_of_agent: int,
        *,
        new_run: bool = True,
        uncounted: int = 0,
    ) -> Refused | None:
        """The verdict of all gates but the rate. Changes nothing."""
        refusal = _off(agent) or self._who(agent, actor)
        if refusal is None and new_run:
            day = utc_day(now_ms)
            of_day = self.runs_of_day(agent.agent_id, day, workspace=agent.workspace) + uncounted
            until_midnight_s = ((day + 1) * DAY_MS - now_ms) / 1000
            refusal = _budget(agent.policy.budget, agent.agent_id, of_day, live_runs_of_agent, until_midnight_s)
        return refusal

    def may_steer(self, agent: Agent, actor: Actor | None) -> bool:
        """Whether this sender may steer an active run of its conversation."""
        rule = agent.policy.audience.steer
        return rule.who != "listed" or self._listed(agent, rule.actors, actor)

    def _who(self, agent: Agent, actor: Actor | None) -> Refused | None:
        gate = agent.policy.gate
        if gate.talk == "everyone" or self._listed(agent, gate.actors, actor):
            return None
        return Refused(
            code="unauthorized",
            reason="sender_not_listed",
            sentence=f"agent {agent.agent_id} only answers listed actors, and the sender is not listed",
            hint="ask the administrator of the agent to list the sender",
            details={"agent": agent.agent_id},
        )

    def _listed(self, agent: Agent, actors: tuple[str, ...], actor: Actor | None) -> bool:
        return not self._names(agent.workspace, actor).isdisjoint(actors)

    def _rate(self, agent: Agent, actor: Actor | None, now_mono: float, *, takes: bool) -> Refused | None:
        rates = self._rates_of(agent)
        if rates is None:
            return None
        key = _rate_key(actor)
        wait_s = rates.take(key, now_mono) if takes else rates.look(key, now_mono)
        if wait_s is None:
            return None
        seconds = math.ceil(wait_s)
        return Refused(
            code="rate_limited",
            reason="sender_rate",
            sentence=f"agent {agent.agent_id} accepts {rates.limit_per_minute} messages a minute from one sender",
            hint=f"retry in {seconds} s",
            details={"agent": agent.agent_id, "limit": rates.limit_per_minute, "seconds": seconds},
            retry_after_s=wait_s,
        )

    def _rates_of(self, agent: Agent) -> Rates[tuple[str, ...]] | None:
        """The rates of the agent. A changed policy starts with full buckets."""
        gate = agent.policy.gate
        per_minute = gate.messages_per_minute
        if per_minute is None:
            return None
        burst = per_minute if gate.burst is None else gate.burst
        key = (agent.workspace, agent.agent_id)
        rates = self._rates.get(key)
        if rates is None or (rates.limit_per_minute, rates.burst) != (per_minute, burst):
            rates = self._rates[key] = Rates(per_minute, burst)
        return rates


def _off(agent: Agent) -> Refused | None:
    if agent.enabled:
        return None
    return Refused(
        code="unauthorized",
        reason="agent_disabled",
        sentence=f"agent {agent.agent_id} is disabled",
        hint=f"enable it: `bollard agents enable {agent.agent_id}`",
        details={"agent": agent.agent_id},
    )


def _budget(
    budget: BudgetPolicy, agent_id: str, of_day: int, live_runs: int, until_midnight_s: float
) -> Refused | None:
    if budget.runs_per_day is not None and of_day >= budget.runs_per_day:
        return Refused(
            code="budget_exceeded",
            reason="runs_per_day",
            sentence=f"agent {agent_id} has used its {budget.runs_per_day} runs of this day (UTC)",
            hint="retry after midnight UTC, or raise runs_per_day of the agent",
            details={"agent": agent_id, "limit": budget.runs_per_day},
            retry_after_s=until_midnight_s,
        )
    if budget.runs_at_once is not None and live_runs >= budget.runs_at_once:
        return Refused(
            code="budget_exceeded",
            reason="runs_at_once",
            sentence=f"agent {agent_id} has {live_runs} active runs; its limit is {budget.runs_at_once}",
            hint="retry when one has ended, or raise runs_at_once of the agent",
            details={"agent": agent_id, "runs": live_runs, "limit": budget.runs_at_once},
        )
    return None


def _rate_key(actor: Actor | None) -> tuple[str, ...]:
    """The key of a bucket: the actor, or one bucket for all senders without an id.

    The sender chooses the id, so a long one is replaced by its digest to bound memory.
    """
    actor_type, actor_id = ("", "") if actor is None else (actor.type, actor.id or "")
    if len(actor_type) + len(actor_id) <= ID_CHARACTERS:
        return (actor_type, actor_id)
    spelled = f"{len(actor_type)}:{actor_type}{actor_id}"
    return (sha256(spelled.encode("utf-8", "surrogatepass")).hexdigest(),)
