"""The front gates: passes, refusals, and their reasons."""

import pytest
from tests.doubles.manual_clock import ManualClock
from tests.new_events import new_event
from tests.replacement import replace
from tests.tables import for_each

from bollard.host.agents.agent import Agent
from bollard.host.agents.gates import FrontGates, GatesPassed, Refused, utc_day
from bollard.host.agents.names import own_names
from bollard.host.agents.policies import AgentPolicy, AudiencePolicy, AudienceRule, BudgetPolicy, GatePolicy
from bollard.host.agents.rates import RATE_KEYS
from bollard.host.runs.event import NewEvent
from bollard.host.scope import Actor

NOON_MS = 19_675 * 86_400_000 + 12 * 3_600_000


class Door:
    """The gates with a clock, as their caller holds them."""

    def __init__(self) -> None:
        self.gates = FrontGates()
        self.clock = ManualClock(now_ms=NOON_MS)

    def knock(
        self, agent: Agent, event: NewEvent, live: int = 0, *, new_run: bool = True, uncounted: int = 0
    ) -> GatesPassed | Refused:
        return self.gates.judge(
            agent,
            event.scope.actor,
            self.clock.monotonic(),
            self.clock.now_ms(),
            live,
            new_run=new_run,
            uncounted=uncounted,
        )

    def count(self, agent: Agent) -> None:
        self.gates.count(agent.agent_id, self.clock.now_ms(), workspace=agent.workspace)


@pytest.fixture
def door() -> Door:
    return Door()


def agent(
    gate: GatePolicy | None = None, budget: BudgetPolicy | None = None, *, agent_id: str = "echo", workspace: str = "w"
) -> Agent:
    return Agent(
        agent_id=agent_id,
        workspace=workspace,
        runner_id="plugin:bollard/echo/default",
        runner_name="default",
        plugin="bollard/echo",
        label={"en_US": "Echo"},
        policy=AgentPolicy(gate=gate or GatePolicy(), budget=budget or BudgetPolicy()),
    )


def event(actor_type: str | None = "user", actor_id: str | None = "ada") -> NewEvent:
    return new_event(
        source="im", source_id="1", event_type="message.received", actor_type=actor_type, actor_id=actor_id
    )


def refused(outcome: GatesPassed | Refused) -> Refused:
    assert isinstance(outcome, Refused)
    assert outcome.sentence
    assert outcome.hint
    return outcome


# --- who ---


@pytest.mark.parametrize(
    ("actors", "actor_type", "actor_id", "passes"),
    [
        (("user:ada",), "user", "ada", True),
        (("user:ada",), "user", "bob", False),
        (("user:ada",), "bot", "ada", False),
        (("user:ada",), "user", "Ada", False),
        (("user:ada",), "user", None, False),
        (("user:None",), "user", None, False),
        (("user:ada",), None, "ada", False),
        (("user:ada",), None, None, False),
        (("user:*",), "user", "bob", True),
        (("user:*",), "user", None, True),
        (("user:*",), "bot", "bob", False),
        (("user:*",), None, None, False),
        (("user:a:b",), "user", "a:b", True),
        (("user:a:b",), "user:a", "b", False),
        (("user:a:*",), "user:a", "b", False),
        (("user:ada",), "user", "*", False),
        (("bot:1", "user:ada"), "user", "ada", True),
        ((), "user", "ada", False),
        ((), None, None, False),
    ],
)
def test_only_listed_actors_may_talk(
    door: Door, actors: tuple[str, ...], actor_type: str | None, actor_id: str | None, passes: bool
) -> None:
    outcome = door.knock(agent(GatePolicy(talk="listed", actors=actors)), event(actor_type, actor_id))
    assert isinstance(outcome, GatesPassed) == passes
    if not passes:
        assert refused(outcome).code == "unauthorized"
        assert refused(outcome).retry_after_s is None


@pytest.mark.parametrize(("actor_type", "actor_id"), [("user", "ada"), (None, None), ("", "")])
def test_everyone_may_talk_if_the_policy_names_everyone(
    door: Door, actor_type: str | None, actor_id: str | None
) -> None:
    assert door.knock(agent(GatePolicy(talk="everyone")), event(actor_type, actor_id)) == GatesPassed()


def test_a_refusal_does_not_name_the_listed_actors(door: Door) -> None:
    outcome = refused(door.knock(agent(GatePolicy(talk="listed", actors=("user:secretly",))), event()))
    assert "secretly" not in outcome.sentence + outcome.hint


# --- how often ---


def test_each_actor_has_a_rate_and_gets_a_retry_time(door: Door) -> None:
    limited = agent(GatePolicy(messages_per_minute=6, burst=2))
    assert door.knock(limited, event()) == GatesPassed()
    assert door.knock(limited, event()) == GatesPassed()
    outcome = refused(door.knock(limited, event()))
    assert outcome.code == "rate_limited"
    assert outcome.retry_after_s == pytest.approx(10, abs=1e-3)
    assert "6 messages a minute" in outcome.sentence
    assert door.knock(limited, event(actor_id="bob")) == GatesPassed()
    door.clock.advance(outcome.retry_after_s or 0)
    assert door.knock(limited, event()) == GatesPassed()


def test_a_rate_without_a_burst_allows_a_minutes_worth_at_once(door: Door) -> None:
    limited = agent(GatePolicy(messages_per_minute=5))
    assert [door.knock(limited, event()) == GatesPassed() for _ in range(6)] == [True] * 5 + [False]


def test_unknown_actors_share_one_rate(door: Door) -> None:
    limited = agent(GatePolicy(messages_per_minute=1))
    assert door.knock(limited, event(None, None)) == GatesPassed()
    assert refused(door.knock(limited, event("", None))).code == "rate_limited"
    assert door.knock(limited, event()) == GatesPassed()


@pytest.mark.parametrize("length", [10, 500])
def test_long_actor_ids_have_separate_rates(door: Door, length: int) -> None:
    limited = agent(GatePolicy(messages_per_minute=1))
    long = "x" * length
    assert door.knock(limited, event("user", long + "1")) == GatesPassed()
    assert door.knock(limited, event("user", long + "2")) == GatesPassed()
    assert door.knock(limited, event("userx", long[1:] + "1")) == GatesPassed()
    assert refused(door.knock(limited, event("user", long + "1"))).code == "rate_limited"
    assert door.knock(limited, event("user", long + "\ud800")) == GatesPassed()


def test_a_flood_of_actors_at_one_agent_does_not_touch_another_agents_rates(door: Door) -> None:
    policy = GatePolicy(messages_per_minute=1)
    flooded, quiet = agent(policy), agent(policy, agent_id="quiet")
    assert door.knock(quiet, event()) == GatesPassed()
    for number in range(RATE_KEYS + 10):
        assert door.knock(flooded, event(actor_id=str(number))) == GatesPassed()
    assert refused(door.knock(quiet, event())).code == "rate_limited"


def test_the_same_name_in_another_workspace_is_another_agent(door: Door) -> None:
    here = agent(GatePolicy(messages_per_minute=1), BudgetPolicy(runs_per_day=1))
    there = replace(here, workspace="other")
    assert door.knock(here, event()) == GatesPassed()
    door.count(here)
    assert refused(door.knock(here, event())).code == "budget_exceeded"
    assert door.knock(there, event()) == GatesPassed()


def test_a_changed_rate_holds_from_the_next_message(door: Door) -> None:
    strict = agent(GatePolicy(messages_per_minute=1))
    door.knock(strict, event())
    assert refused(door.knock(strict, event())).code == "rate_limited"
    relaxed = agent(GatePolicy(messages_per_minute=3))
    assert [door.knock(relaxed, event()) == GatesPassed() for _ in range(4)] == [True, True, True, False]
    assert door.knock(agent(GatePolicy()), event()) == GatesPassed()


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_a_jump_of_the_wall_clock_changes_no_rate(door: Door, jump_ms: int) -> None:
    limited = agent(GatePolicy(messages_per_minute=1))
    door.knock(limited, event())
    now_mono, now_ms = door.clock.monotonic(), door.clock.now_ms() + jump_ms
    assert refused(door.gates.judge(limited, event().scope.actor, now_mono, now_ms, 0)).code == "rate_limited"
    assert door.gates.judge(limited, event().scope.actor, now_mono + 60.001, now_ms, 0) == GatesPassed()


# --- how many ---


def test_each_day_has_its_own_number_of_runs(door: Door) -> None:
    thrifty = agent(budget=BudgetPolicy(runs_per_day=2))
    for _ in range(2):
        assert door.knock(thrifty, event()) == GatesPassed()
        door.count(thrifty)
    outcome = refused(door.knock(thrifty, event()))
    assert outcome.code == "budget_exceeded"
    assert outcome.retry_after_s == 12 * 3600
    door.clock.advance(12 * 3600 - 0.001)
    assert refused(door.knock(thrifty, event())).code == "budget_exceeded"
    door.clock.advance(0.001)
    assert door.knock(thrifty, event()) == GatesPassed()


def test_only_counted_and_uncommitted_runs_use_the_budget(door: Door) -> None:
    thrifty = agent(budget=BudgetPolicy(runs_per_day=1))
    for _ in range(5):
        assert door.knock(thrifty, event()) == GatesPassed()
    assert refused(door.knock(thrifty, event(), uncounted=1)).code == "budget_exceeded"


def test_the_runs_before_a_restart_count(door: Door) -> None:
    thrifty = agent(budget=BudgetPolicy(runs_per_day=10))
    door.gates.seed("echo", utc_day(NOON_MS), 9, workspace="w")
    door.gates.seed("echo", utc_day(NOON_MS) - 1, 500, workspace="w")
    assert door.knock(thrifty, event()) == GatesPassed()
    door.count(thrifty)
    assert refused(door.knock(thrifty, event())).code == "budget_exceeded"


def test_a_clock_set_back_over_midnight_finds_both_daily_counts(door: Door) -> None:
    thrifty = agent(budget=BudgetPolicy(runs_per_day=1))
    midnight_ms = (utc_day(NOON_MS) + 1) * 86_400_000
    for now_ms in (midnight_ms - 1, midnight_ms):
        assert door.gates.judge(thrifty, event().scope.actor, 0.0, now_ms, 0) == GatesPassed()
        door.gates.count("echo", now_ms, workspace="w")
    for now_ms in (midnight_ms - 1, midnight_ms):
        assert refused(door.gates.judge(thrifty, event().scope.actor, 0.0, now_ms, 0)).code == "budget_exceeded"


def test_old_days_are_forgotten(door: Door) -> None:
    for day in range(100):
        door.gates.seed("echo", day, 1, workspace="w")
    assert [door.gates.runs_of_day("echo", day, workspace="w") for day in (97, 98, 99)] == [0, 1, 1]


@pytest.mark.parametrize("order", [(19, 20, 400, 21), (20, 19, 400, 21), (400, 19, 20, 21)])
def test_the_days_nearest_to_today_are_kept_in_any_order_of_the_clock(door: Door, order: tuple[int, ...]) -> None:
    for day in order:
        door.gates.seed("echo", day, 1, workspace="w")
    assert [door.gates.runs_of_day("echo", day, workspace="w") for day in (19, 20, 21, 400)] == [0, 1, 1, 0]


@pytest.mark.parametrize(("live", "passes"), [(0, True), (1, True), (2, False), (3, False)])
def test_an_agent_has_a_limit_of_concurrent_runs(door: Door, live: int, passes: bool) -> None:
    outcome = door.knock(agent(budget=BudgetPolicy(runs_at_once=2)), event(), live)
    assert isinstance(outcome, GatesPassed) == passes
    if not passes:
        assert refused(outcome).code == "budget_exceeded"
        assert refused(outcome).retry_after_s is None


def test_a_steering_message_needs_no_run_budget_and_passes_the_other_gates(door: Door) -> None:
    busy = agent(
        GatePolicy(talk="listed", actors=("user:ada",), messages_per_minute=1),
        BudgetPolicy(runs_per_day=1, runs_at_once=1),
    )
    door.count(busy)
    assert refused(door.knock(busy, event(), 1)).code == "budget_exceeded"
    assert refused(door.knock(busy, event(actor_id="bob"), 1, new_run=False)).code == "unauthorized"
    assert door.knock(busy, event(), 1, new_run=False) == GatesPassed()
    assert refused(door.knock(busy, event(), 1, new_run=False)).code == "rate_limited"


# --- together ---


def test_a_rate_token_is_taken_only_if_every_other_gate_is_open(door: Door) -> None:
    careful = agent(
        GatePolicy(talk="listed", actors=("user:ada",), messages_per_minute=1), BudgetPolicy(runs_at_once=1)
    )
    for _ in range(5):
        assert refused(door.knock(careful, event(), 1)).code == "budget_exceeded"
    stranger = replace(careful, policy=replace(careful.policy, gate=replace(careful.policy.gate, actors=())))
    for _ in range(5):
        assert refused(door.knock(stranger, event())).code == "unauthorized"
    assert door.knock(careful, event()) == GatesPassed()
    assert refused(door.knock(careful, event())).code == "rate_limited"


def test_an_unlisted_actor_learns_nothing_about_rates_and_budgets(door: Door) -> None:
    closed = agent(GatePolicy(talk="listed", messages_per_minute=1), BudgetPolicy(runs_per_day=1, runs_at_once=1))
    door.count(closed)
    assert refused(door.knock(closed, event(), 9)).code == "unauthorized"


def test_a_deleted_agent_leaves_no_counts(door: Door) -> None:
    limited = agent(GatePolicy(messages_per_minute=1), BudgetPolicy(runs_per_day=1))
    door.knock(limited, event())
    door.count(limited)
    door.gates.forget("echo", workspace="w")
    assert door.knock(limited, event()) == GatesPassed()
    door.gates.forget("never-there", workspace="w")


# --- names in rules ---


def known(workspace: str, actor: Actor | None) -> frozenset[str]:
    """Ada is a user of `w`, and the one with that id on a chat platform."""
    own = own_names(workspace, actor)
    is_ada = workspace == "w" and actor in (Actor("user", "ada"), Actor("chat", "7"))
    return own | {"user:ada", "role:member"} if is_ada else own


@for_each(
    ("actors", "actor", "passes"),
    [
        (("user:ada",), ("chat", "7"), True),
        (("user:ada",), ("chat", "8"), False),
        (("role:member",), ("chat", "7"), True),
        (("role:member",), ("role", "member"), False),
        (("role:admin",), ("chat", "7"), False),
        (("chat:*",), ("chat", "8"), True),
        (("user:ada",), ("us:er", "ada"), False),
        (("user:*",), (None, None), False),
    ],
)
def test_a_list_may_name_users_and_roles(
    actors: tuple[str, ...], actor: tuple[str | None, str | None], passes: bool
) -> None:
    gates = FrontGates(known)
    listed = agent(GatePolicy(talk="listed", actors=actors))
    outcome = gates.judge(listed, event(*actor).scope.actor, 0.0, NOON_MS, 0)
    assert isinstance(outcome, GatesPassed) == passes
    elsewhere = agent(GatePolicy(talk="listed", actors=("role:member",)), workspace="v")
    assert isinstance(gates.judge(elsewhere, event("chat", "7").scope.actor, 0.0, NOON_MS, 0), Refused)


@for_each(
    ("rule", "actor", "steers"),
    [
        (AudienceRule(who="everyone"), (None, None), True),
        (AudienceRule(who="participants"), ("chat", "8"), True),  # who speaks in the conversation takes part
        (AudienceRule(who="listed", actors=("user:ada",)), ("chat", "7"), True),
        (AudienceRule(who="listed", actors=("user:ada",)), ("chat", "8"), False),
        (AudienceRule(who="listed"), ("user", "ada"), False),
    ],
)
def test_the_audience_rule_of_the_agent_decides_about_steering(
    rule: AudienceRule, actor: tuple[str | None, str | None], steers: bool
) -> None:
    told = replace(agent(), policy=AgentPolicy(audience=AudiencePolicy(steer=rule)))
    assert FrontGates(known).may_steer(told, event(*actor).scope.actor) == steers
