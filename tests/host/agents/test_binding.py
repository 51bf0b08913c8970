"""Bindings are validated strictly, and two that could match one event equally are refused."""

import dataclasses
import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.new_events import new_event
from tests.replacement import replace
from tests.tables import for_each

from bollard.host.agents.binding import LEVELS, Binding, BindingScope, Filter, check_new, clash, rank_of
from bollard.host.agents.routing import BindingRegistry, resolve
from bollard.host.errors import Conflict, InvalidRequest
from bollard.host.runs.event import NewEvent


def binding(binding_id: str = "b", scope: Any = None, filters: Any = None, **more: Any) -> Binding:
    found = [{"field": name, "values": list(values)} for name, values in (filters or {}).items()]
    return Binding.read({"binding_id": binding_id, "agent_id": "polly", "scope": scope or {}, "filters": found, **more})


def matches(bound: Binding, event: NewEvent) -> bool:
    """A second opinion, without the code under test."""
    scope = event.scope
    actor = f"{scope.actor_type}:{scope.actor_id}" if scope.actor_type and scope.actor_id else None
    there = {
        "bot": scope.bot,
        "channel": event.source,
        "conversation": scope.conversation,
        "thread": scope.thread,
        "actor": actor,
    }
    wanted = {level: getattr(bound.scope, level) for level in there}
    if not bound.enabled or any(value not in (None, there[level]) for level, value in wanted.items()):
        return False
    body = {
        **dataclasses.asdict(event),
        **msgspec.structs.asdict(scope),
        **{f"data.{key}": value for key, value in event.data.items()},
    }
    return all(body.get(item.field) in item.values for item in bound.filters)


# --- the wire ---


def test_a_binding_reads_back_the_same() -> None:
    bound = binding(
        "support",
        {"bot": "b1", "channel": "telegram", "conversation": "c", "thread": "t", "actor": "user:a:b"},
        {"event_type": ["message.received", "message.edited"], "data.kind": ["x"]},
        priority=-3,
        enabled=False,
    )
    assert bound.scope == BindingScope(bot="b1", channel="telegram", conversation="c", thread="t", actor="user:a:b")
    assert bound.filters == (
        Filter(field="data.kind", values=("x",)),
        Filter(field="event_type", values=("message.edited", "message.received")),
    )
    assert Binding.read(bound.to_wire()) == bound


@for_each(
    ("more", "field", "said"),
    [
        ({"binding_id": "Support"}, "binding.binding_id", "pattern"),
        ({"binding_id": "direct:polly"}, "binding.binding_id", "pattern"),
        ({"agent_id": ""}, "binding.agent_id", "pattern"),
        ({"agents": ["polly"]}, "binding.agents", "no such field"),
        ({"scope": {"room": "x"}}, "binding.scope.room", "no such field"),
        ({"scope": {"bot": ""}}, "binding.scope.bot", "at least 1"),
        ({"scope": {"conversation": "c\u200d"}}, "binding.scope.conversation", "U+200D"),
        ({"scope": {"thread": "t"}}, "binding.scope.thread", "part of a conversation"),
        ({"scope": {"actor": "ada"}}, "binding.scope.actor", "type:id"),
        ({"scope": {"actor": "user:*"}}, "binding.scope.actor", "name one"),
        ({"filters": [{"field": "text", "values": ["x"]}]}, "binding.filters.0.field", "cannot be filtered"),
        ({"filters": [{"field": "data.", "values": ["x"]}]}, "binding.filters.0.field", "cannot be filtered"),
        ({"filters": [{"field": "__class__", "values": ["x"]}]}, "binding.filters.0.field", "cannot be filtered"),
        ({"filters": [{"field": "source", "values": []}]}, "binding.filters.0.values", "at least 1"),
        ({"filters": [{"field": "source", "values": ["a"] * 101}]}, "binding.filters.0.values", "100"),
        ({"filters": [{"field": "source", "values": [7]}]}, "binding.filters.0.values.0", "string"),
        ({"filters": [{"field": "source", "values": ["a"], "not": True}]}, "binding.filters.0.not", "no such field"),
        ({"filters": [{"field": "source", "values": ["a"]}] * 2}, "binding.filters", "twice"),
        ({"filters": [{"field": "trigger", "values": ["api", "tea"]}]}, "binding.filters", "no such trigger"),
        ({"filters": [{"field": f"data.{n}", "values": ["a"]} for n in range(17)]}, "binding.filters", "16"),
        ({"priority": 1001}, "binding.priority", "1000"),
        ({"priority": 1.0}, "binding.priority", "integer"),
        ({"enabled": 1}, "binding.enabled", "boolean"),
    ],
)
def test_an_invalid_field_is_refused_by_its_path(more: Any, field: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Binding.read({"binding_id": "b", "agent_id": "polly", **more})
    assert caught.value.details["field"] == field
    assert said in caught.value.message
    assert caught.value.hint


def test_a_binding_that_no_event_could_match_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="in this scope source is always telegram"):
        binding(scope={"channel": "telegram"}, filters={"source": ["slack"]})
    with pytest.raises(InvalidRequest, match="in this scope actor_type is always user"):
        binding(scope={"actor": "user:ada"}, filters={"actor_type": ["bot"]})
    assert binding(scope={"channel": "telegram"}, filters={"source": ["slack", "telegram"]}).enabled


# --- which goes first ---


def test_scope_ranks_before_filters_and_filters_before_priority() -> None:
    workspace, filtered = binding(priority=9), binding(filters={"source": ["x"]})
    bot = binding(scope={"bot": "b"}, priority=-9)
    assert rank_of(bot) > rank_of(filtered) > rank_of(workspace) > rank_of(binding(priority=8))


def test_the_first_scope_level_named_by_only_one_binding_decides() -> None:
    names = ["actor", "thread", "conversation", "channel", "bot"]
    assert list(LEVELS) == names
    for index, level in enumerate(names):
        below = BindingScope(**dict.fromkeys(names[index + 1 :], "user:x"))
        alone = BindingScope(**{level: "user:x"})
        one, other = (Binding.model_construct(binding_id="b", agent_id="a", scope=scope) for scope in (alone, below))
        assert rank_of(one) > rank_of(other)
    wider = Binding(binding_id="b", agent_id="a", scope=BindingScope(actor="user:x", bot="b"))
    assert rank_of(wider) > rank_of(Binding(binding_id="b", agent_id="a", scope=BindingScope(actor="user:x")))


# --- what clashes ---


@for_each(
    ("one", "other", "clashes"),
    [
        ({}, {}, True),
        ({}, {"priority": 1}, False),
        ({}, {"enabled": False}, False),
        ({"scope": {"bot": "a"}}, {"scope": {"bot": "a"}}, True),
        ({"scope": {"bot": "a"}}, {"scope": {"bot": "b"}}, False),
        ({"scope": {"bot": "a"}}, {"scope": {"channel": "a"}}, False),
        ({"scope": {"bot": "a"}}, {"scope": {"bot": "a", "channel": "c"}}, False),
        ({"filters": {"source": "ab"}}, {"filters": {"source": "bc"}}, True),
        ({"filters": {"source": "a"}}, {"filters": {"source": "b"}}, False),
        ({"filters": {"source": "a"}}, {}, False),
        ({"filters": {"source": "a"}}, {"filters": {"surface": "b"}}, True),
        ({"filters": {"source": "a", "surface": "x"}}, {"filters": {"source": "a", "surface": "y"}}, False),
        ({"filters": {"data.k": "a"}}, {"filters": {"data.k": "a"}}, True),
        ({"filters": {"data.k": "a"}}, {"filters": {"data.l": "a"}}, True),
    ],
)
def test_bindings_clash_only_if_no_rule_orders_them(one: Any, other: Any, clashes: bool) -> None:
    assert clash(binding("a", **one), binding("b", **other)) is clashes
    assert clash(binding("b", **other), binding("a", **one)) is clashes


def test_bindings_of_two_workspaces_do_not_clash() -> None:
    registry = BindingRegistry()
    registry.put(binding("a"), "north")
    registry.put(binding("b"), "south")
    with pytest.raises(Conflict):
        registry.put(binding("b"), "north")


@pytest.mark.requirement("P12-01")
def test_a_clash_is_refused_with_both_names_and_an_event_that_matches_both() -> None:
    old = binding("old", {"channel": "telegram"}, {"event_type": ["message.received", "message.edited"]})
    new = binding("new", {"channel": "telegram"}, {"event_type": ["message.edited", "message.recalled"]})
    with pytest.raises(Conflict) as caught:
        check_new(new, [binding("other"), old])
    assert caught.value.message == (
        "bindings new and old would both match the same event (channel telegram, event_type message.edited), "
        "and neither goes before the other"
    )
    assert caught.value.details == {
        "reason": "bindings_clash",
        "binding": "new",
        "other": "old",
        "example": {"channel": "telegram", "event_type": "message.edited"},
    }
    assert "priority" in caught.value.hint


def test_the_example_event_has_the_scope_even_if_a_filter_allows_more() -> None:
    scope = {"channel": "telegram", "actor": "user:ada"}
    wide = {"source": ["irc", "telegram"], "actor_type": ["bot", "user"]}
    with pytest.raises(Conflict) as caught:
        check_new(binding("new", scope, wide), [binding("old", scope, wide)])
    assert caught.value.details["example"] == scope


def test_two_bindings_of_the_whole_workspace_clash_on_any_event() -> None:
    with pytest.raises(Conflict, match="any event of the workspace"):
        check_new(binding("new"), [binding("old")])


def test_a_binding_does_not_clash_with_its_earlier_revision() -> None:
    check_new(binding("same", priority=0), [binding("same")])


VALUES = ("x", "y")
values = st.sets(st.sampled_from(VALUES), min_size=1)
scopes = st.fixed_dictionaries(
    {},
    optional={
        "bot": st.sampled_from(VALUES),
        "channel": st.sampled_from(VALUES),
        "conversation": st.sampled_from(VALUES),
        "thread": st.just("x"),
        "actor": st.sampled_from(("user:x", "staff:x")),
    },
)
filters = st.fixed_dictionaries(
    {},
    optional={
        "source": values,
        "event_type": values,
        "data.k": values,
        "actor_type": st.sets(st.sampled_from(("user", "staff")), min_size=1),
    },
)
EVENTS = [
    new_event(
        source=source,
        source_id="1",
        event_type=event_type,
        bot=bot,
        conversation=conversation,
        thread=thread,
        actor_type=actor_type,
        actor_id=None if actor_type is None else "x",
        data={} if key is None else {"k": key},
    )
    for source, event_type, bot, conversation, thread, actor_type, key in itertools.product(
        VALUES, VALUES, (None, *VALUES), (None, *VALUES), (None, "x"), (None, "user", "staff"), (None, *VALUES)
    )
]


@st.composite
def bindings(draw: st.DrawFn, binding_id: str | None = None) -> Binding:
    scope, filtered = draw(scopes), draw(filters)
    name = binding_id or draw(st.sampled_from("abcdefgh"))
    try:
        return binding(name, scope, filtered, priority=draw(st.sampled_from((0, 0, 1))), enabled=draw(st.booleans()))
    except InvalidRequest:
        assume(False)
        raise


@settings(deadline=None, max_examples=150)
@given(bindings("a"), bindings("b"), st.booleans())
def test_bindings_clash_exactly_when_some_event_matches_both_equally(one: Binding, other: Binding, alike: bool) -> None:
    if alike:  # two scopes are seldom equal by chance, and only equal ones can clash
        other = replace(other, scope=one.scope, enabled=True)
        one = replace(one, enabled=True)
        assume(all(_is_possible(bound) for bound in (one, other)))
    meet = rank_of(one) == rank_of(other) and any(matches(one, event) and matches(other, event) for event in EVENTS)
    assert clash(one, other) is meet


def _is_possible(bound: Binding) -> bool:
    try:
        return Binding.read(bound.to_wire()) == bound
    except InvalidRequest:
        return False


@pytest.mark.requirement("P12-01")
@settings(deadline=None, max_examples=100)
@given(st.lists(bindings(), max_size=8), st.data())
def test_at_most_one_of_the_accepted_bindings_wins(found: list[Binding], data: st.DataObject) -> None:
    book = BindingRegistry()
    for bound in found:
        others = [other for other in book.all() if other.binding_id != bound.binding_id]
        if any(clash(bound, other) for other in others):
            before = book.all()
            with pytest.raises(Conflict):
                book.put(bound)
            assert book.all() == before
        else:
            book.put(bound)
    accepted = book.all()
    for event in data.draw(st.lists(st.sampled_from(EVENTS), min_size=20, max_size=20)):
        matching = [bound for bound in accepted if matches(bound, event)]
        first = max((rank_of(bound) for bound in matching), default=None)
        winners = [bound for bound in matching if rank_of(bound) == first]
        assert len(winners) <= 1
        expected = winners[0] if winners else None
        assert resolve(event, accepted, {}).binding == expected
        assert book.table().find(event) == expected
