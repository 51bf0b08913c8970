"""The front gates: who may talk to an agent, how often, and how many runs it may have. Answers are data, not errors.

Content rules and the order of a conversation are judged elsewhere. Rates are on monotonic time; only the budget of a
day looks at the wall clock, because a day is what it is about.
"""

import math
from hashlib import sha256
from typing import Final, Literal, Protocol

import msgspec

from bollard.host.agents.agent import Agent
from bollard.host.agents.names import ID_CHARACTERS, Names, own_names
from bollard.host.agents.policies import BudgetPolicy
from bollard.host.agents.rates import Rates

DAY_MS: Final = 24 * 3600 * 1000
DAYS_KEPT: Final = 2
"""Days whose runs are remembered for an agent: a clock that is set back over midnight finds the old count."""


class EventActor(Protocol):
    """An event, as far as it says who speaks."""

    @property
    def actor_type(self) -> str | None: ...
    @property
    def actor_id(self) -> str | None: ...


class GatesPassed(msgspec.Struct, frozen=True):
    """All gates are open; if the agent limits rates, a token was taken."""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A gate is closed. The caller makes the error."""

    code: Literal["unauthorized", "rate_limited", "budget_exceeded"]
    sentence: str
    hint: str
    retry_after_s: float | None = None
    """When it is worth another try; `None` when time alone does not help, or nobody can say."""


def utc_day(now_ms: int) -> int:
    """The UTC day of a moment, counted from the epoch."""
    return now_ms // DAY_MS


class FrontGates:
    """One per host: the policies come with each agent, the counts and the rates are kept here, each agent by itself."""

    def __init__(self, names: Names = own_names) -> None:
        """`names` says what rules may call an actor."""
        self._names = names
        self._rates: dict[tuple[str, str], Rates[tuple[str, ...]]] = {}
        self._runs: dict[tuple[str, str], dict[int, int]] = {}

    def seed(self, agent_id: str, day: int, count: int, *, workspace: str) -> None:
        """At start: the runs that an agent had on a UTC day, as the store knows them."""
        days = self._runs.setdefault((workspace, agent_id), {})
        days[day] = count
        while len(days) > DAYS_KEPT:
            del days[max(days, key=lambda other: abs(other - day))]

    def count(self, agent_id: str, now_ms: int, *, workspace: str) -> None:
        """A run of the agent is on disk."""
        day = utc_day(now_ms)
        self.seed(agent_id, day, self.runs_of_day(agent_id, day, workspace=workspace) + 1, workspace=workspace)

    def runs_of_day(self, agent_id: str, day: int, *, workspace: str) -> int:
        """Runs that were counted for an agent on a UTC day."""
        return self._runs.get((workspace, agent_id), {}).get(day, 0)

    def forget(self, agent_id: str, *, workspace: str) -> None:
        """The agent was deleted."""
        self._rates.pop((workspace, agent_id), None)
        self._runs.pop((workspace, agent_id), None)

    def judge(
        self,
        agent: Agent,
        event: EventActor,
        now_mono: float,
        now_ms: int,
        live_runs_of_agent: int,
        *,
        new_run: bool = True,
        uncounted: int = 0,
        takes: bool = True,
    ) -> GatesPassed | Refused:
        """Judge one event. The rate is last, because passing it takes a token; unless `takes` is false, for who only
        asks.

        `live_runs_of_agent` are those that would run beside a new one, so without those it will wait for.
        `uncounted` are runs of the agent that passed and are not on disk yet; the day's budget counts them too.
        A message that steers makes no run: with `new_run` false the budgets are not asked.
        """
        refusal = self.look(agent, event, now_ms, live_runs_of_agent, new_run=new_run, uncounted=uncounted)
        if refusal is None:
            refusal = self._rate(agent, event, now_mono, takes=takes)
        return GatesPassed() if refusal is None else refusal

    def look(
        self,
        agent: Agent,
        event: EventActor,
        now_ms: int,
        live_runs_of_agent: int,
        *,
        new_run: bool = True,
        uncounted: int = 0,
    ) -> Refused | None:
        """What `judge` would say before it asks for the rate. Changes nothing."""
        refusal = self._who(agent, event)
        if refusal is None and new_run:
            day = utc_day(now_ms)
            of_day = self.runs_of_day(agent.agent_id, day, workspace=agent.workspace) + uncounted
            until_midnight_s = ((day + 1) * DAY_MS - now_ms) / 1000
            refusal = _budget(agent.policy.budget, agent.agent_id, of_day, live_runs_of_agent, until_midnight_s)
        return refusal

    def may_steer(self, agent: Agent, event: EventActor) -> bool:
        """Whether this sender's message may go into a run that is active. Who speaks in its conversation takes part."""
        rule = agent.policy.audience.steer
        return rule.who != "listed" or self._listed(agent, rule.actors, event)

    def _who(self, agent: Agent, event: EventActor) -> Refused | None:
        gate = agent.policy.gate
        if gate.talk == "everyone" or self._listed(agent, gate.actors, event):
            return None
        return Refused(
            code="unauthorized",
            sentence=f"agent {agent.agent_id} talks only to those on its list, and the sender is not on it",
            hint="ask whoever keeps the agent to add the sender",
        )

    def _listed(self, agent: Agent, actors: tuple[str, ...], event: EventActor) -> bool:
        return not self._names(agent.workspace, event.actor_type, event.actor_id).isdisjoint(actors)

    def _rate(self, agent: Agent, event: EventActor, now_mono: float, *, takes: bool) -> Refused | None:
        rates = self._rates_of(agent)
        if rates is None:
            return None
        key = _rate_key(event)
        wait_s = rates.take(key, now_mono) if takes else rates.look(key, now_mono)
        if wait_s is None:
            return None
        return Refused(
            code="rate_limited",
            sentence=f"agent {agent.agent_id} takes {rates.limit_per_minute} messages a minute from one sender",
            hint=f"try again in {math.ceil(wait_s)} s",
            retry_after_s=wait_s,
        )

    def _rates_of(self, agent: Agent) -> Rates[tuple[str, ...]] | None:
        """The agent's rates; new ones, all rested, when a person changed the policy."""
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


def _budget(
    budget: BudgetPolicy, agent_id: str, of_day: int, live_runs: int, until_midnight_s: float
) -> Refused | None:
    if budget.runs_per_day is not None and of_day >= budget.runs_per_day:
        return Refused(
            code="budget_exceeded",
            sentence=f"agent {agent_id} has had its {budget.runs_per_day} runs of this day (UTC)",
            hint="try again after midnight UTC, or raise runs_per_day of the agent",
            retry_after_s=until_midnight_s,
        )
    if budget.runs_at_once is not None and live_runs >= budget.runs_at_once:
        return Refused(
            code="budget_exceeded",
            sentence=f"agent {agent_id} has {live_runs} runs under way and may have {budget.runs_at_once} at once",
            hint="try again when one has ended, or raise runs_at_once of the agent",
        )
    return None


def _rate_key(event: EventActor) -> tuple[str, ...]:
    """Who a bucket belongs to: the actor, or everybody who does not say who they are together.

    An id is the sender's to choose, so a long one is kept as its digest: memory is bounded by the number of keys.
    """
    actor_type, actor_id = event.actor_type or "", event.actor_id or ""
    if len(actor_type) + len(actor_id) <= ID_CHARACTERS:
        return (actor_type, actor_id)
    spelled = f"{len(actor_type)}:{actor_type}{actor_id}"
    return (sha256(spelled.encode("utf-8", "surrogatepass")).hexdigest(),)
