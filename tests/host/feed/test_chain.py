"""Chains of host events: no agent twice, and not too many. Selections of events."""

from bollard.host.feed.bound_events import chain_problem
from bollard.host.feed.feed_event import EVERYTHING, FEED_RECORDS, FeedEvent, Selection, all_of
from bollard.host.limits import EVENT_HOPS


def test_an_agent_of_the_chain_is_refused_and_a_new_one_is_not() -> None:
    assert chain_problem(["a", "b"], "c") is None
    problem = chain_problem(["a", "b"], "a")
    assert problem is not None
    assert (problem.code, "a → b" in problem.message) == ("event_loop", True)


def test_a_chain_ends_at_its_limit() -> None:
    agents = [f"agent-{number}" for number in range(EVENT_HOPS)]
    assert chain_problem(agents, "next") is None
    problem = chain_problem([*agents, "one-more"], "next")
    assert problem is not None
    assert problem.code == "event_hops"


def test_a_selection_reads_only_the_records_of_its_types() -> None:
    assert EVERYTHING.records == FEED_RECORDS
    assert Selection(types=frozenset({"run.completed", "run.failed"})).records == {"run.ended"}
    assert Selection(types=frozenset({"artifact.created", "build.failed"})).records == {
        "artifact.created",
        "event.received",
    }


def test_a_union_of_selections_has_every_event_of_each() -> None:
    runs = Selection(types=frozenset({"run.failed"}), agents=frozenset({"a"}))
    builds = Selection(types=frozenset({"build.failed"}))
    assert all_of([runs, builds]) == Selection(types=frozenset({"run.failed", "build.failed"}))
    assert all_of([runs, EVERYTHING]) == EVERYTHING


def test_every_condition_of_a_selection_counts() -> None:
    event = FeedEvent(
        position=1, id="e", type="t", source="s", time_ms=0, workspace="w", agent_id="a", conversation="c"
    )
    right = {"types": "t", "agents": "a", "conversations": "c", "sources": "s"}
    assert Selection(**{name: frozenset({value}) for name, value in right.items()}).matches(event)
    for wrong in right:
        values = {name: frozenset({"x" if name == wrong else value}) for name, value in right.items()}
        assert not Selection(**values).matches(event), wrong
