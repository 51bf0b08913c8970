"""An event matches at most one binding, with an explanation."""

import string
from typing import Any

import pytest
from tests.new_events import new_event
from tests.tables import for_each

from bollard.host.agents.agent import Agent, AgentRegistry
from bollard.host.agents.binding import Binding, BindingScope, Filter, RoutedEvent
from bollard.host.agents.routing import WORDS, BindingRegistry, Resolution, RoutingStep, RoutingTable, resolve, sentence
from bollard.host.errors import Conflict
from bollard.host.runs.event import NewEvent


def agent(agent_id: str) -> Agent:
    return Agent(
        agent_id=agent_id, runner_id="plugin:a/b/default", runner_name="default", plugin="a/b", label={"en_US": "B"}
    )


AGENTS = {name: agent(name) for name in ("polly", "molly")}


def bound(binding_id: str, agent_id: str = "polly", filters: Any = None, **more: Any) -> Binding:
    names = ("bot", "channel", "conversation", "thread", "actor")
    scope = BindingScope(**{name: more.pop(name) for name in names if name in more})
    found = tuple(Filter(field=name, values=tuple(values)) for name, values in (filters or {}).items())
    return Binding(binding_id=binding_id, agent_id=agent_id, scope=scope, filters=found, **more)


def event(**more: Any) -> NewEvent:
    fields: dict[str, Any] = {
        "source": "telegram",
        "source_id": "1",
        "event_type": "message.received",
        "bot": "bot1",
        "conversation": "room",
        "thread": "t1",
        "actor_type": "user",
        "actor_id": "ada",
    }
    return new_event(**{**fields, **more})


LADDER = [
    bound("workspace"),
    bound("bot", bot="bot1"),
    bound("channel", channel="telegram"),
    bound("conversation", conversation="room"),
    bound("thread", conversation="room", thread="t1"),
    bound("actor", actor="user:ada"),
]


def test_the_most_specific_scope_gets_the_event() -> None:
    for count in range(len(LADDER), 0, -1):
        found = resolve(event(), LADDER[:count], AGENTS)
        assert found.binding is LADDER[count - 1]
        assert found.binding_id == LADDER[count - 1].binding_id
        assert found.agent is AGENTS["polly"]
        assert RoutingTable(LADDER[:count]).find(event()) is LADDER[count - 1]


def test_a_binding_of_the_actor_outranks_every_lower_level() -> None:
    below = bound("below", conversation="room", thread="t1", channel="telegram", bot="bot1")
    assert resolve(event(), [below, bound("actor", actor="user:ada")], AGENTS).binding_id == "actor"


def test_more_filters_outrank_fewer_and_priority_decides_ties() -> None:
    plain = bound("plain", priority=5)
    one = bound("one", filters={"event_type": ["message.received"]})
    two = bound("two", filters={"event_type": ["message.received"], "surface": ["api"]}, priority=-1)
    assert resolve(event(), [plain, one, two], AGENTS).binding_id == "two"
    assert resolve(event(surface="web"), [plain, one, two], AGENTS).binding_id == "one"
    assert resolve(event(event_type="bot.added"), [plain, one, two], AGENTS).binding_id == "plain"
    assert resolve(event(), [plain, bound("higher", priority=6)], AGENTS).binding_id == "higher"


@for_each(
    ("field", "value", "more"),
    [
        ("event_type", "bot.added", {"event_type": "bot.added"}),
        ("source", "slack", {"source": "slack"}),
        ("trigger", "platform", {"trigger": "platform"}),
        ("surface", "web", {"surface": "web"}),
        ("actor_type", "staff", {"actor_type": "staff"}),
        ("subject_type", "ticket", {"subject_type": "ticket"}),
        ("data.kind", "x", {"data": {"kind": "x"}}),
        ("data.a.b", "x", {"data": {"a.b": "x"}}),
    ],
)
def test_every_field_can_be_filtered(field: str, value: str, more: Any) -> None:
    bindings = [bound("b", filters={field: [value, "scheduler"]})]
    assert resolve(event(**more), bindings, AGENTS).binding_id == "b"
    assert resolve(event(), bindings, AGENTS).binding_id is None
    assert RoutingTable(bindings).find(event()) is None


@for_each("value", [1, True, None, ["1"], {"k": "1"}])
def test_only_text_values_of_the_data_are_compared(value: Any) -> None:
    bindings = [bound("b", filters={"data.kind": ["1", "True", "None"]})]
    assert resolve(event(data={"kind": value}), bindings, AGENTS).binding is None


def test_a_colon_in_the_actor_type_does_not_match_another_actor() -> None:
    bindings = [bound("b", actor="user:a:b")]
    assert resolve(event(actor_type="user", actor_id="a:b"), bindings, AGENTS).binding_id == "b"
    assert resolve(event(actor_type="user:a", actor_id="b"), bindings, AGENTS).binding is None
    assert RoutingTable(bindings).find(event(actor_type="user:a", actor_id="b")) is None


def test_an_event_without_a_level_does_not_match_a_scope_that_names_it() -> None:
    bare = event(bot=None, conversation=None, thread=None, actor_type=None, actor_id=None)
    found = resolve(bare, LADDER, AGENTS)
    assert found.binding_id == "channel"
    assert [step.key for step in found.steps] == [
        "scope_absent",
        "scope_absent",
        "scope_absent",
        "won",
        "scope_absent",
        "outranked_by_scope",
    ]


def test_every_binding_has_a_reason_for_its_match() -> None:
    bindings = [
        bound("winner", "molly", conversation="room", filters={"surface": ["api"], "trigger": ["api"]}),
        bound("fewer", conversation="room", filters={"surface": ["api"]}, priority=1),
        bound("lower", "molly", conversation="room", filters={"surface": ["api"], "trigger": ["api"]}, priority=-1),
        bound("wide"),
        bound("off", conversation="room", enabled=False),
        bound("elsewhere", conversation="hall"),
        bound("pickier", conversation="room", filters={"source": ["slack", "irc"]}),
        bound("data", conversation="room", filters={"data.kind": ["x"]}),
    ]
    found = resolve(event(), bindings, AGENTS)
    assert found.agent is AGENTS["molly"]
    by_binding = {step.fields["binding"]: step for step in found.steps}
    assert len(by_binding) == len(found.steps) == len(bindings)
    told = {
        name: (step.key, {key: step.fields[key] for key in step.fields if key != "binding"})
        for name, step in by_binding.items()
    }
    assert told == {
        "winner": ("won", {"agent": "molly"}),
        "fewer": ("outranked_by_filters", {"by": "winner"}),
        "lower": ("outranked_by_priority", {"by": "winner"}),
        "wide": ("outranked_by_scope", {"by": "winner"}),
        "off": ("disabled", {}),
        "elsewhere": ("scope_differs", {"level": "conversation", "wanted": "hall", "actual": "room"}),
        "pickier": ("filter_differs", {"field": "source", "wanted": "irc, slack", "actual": "telegram"}),
        "data": ("filter_absent", {"field": "data.kind", "wanted": "x"}),
    }
    assert sentence(by_binding["elsewhere"].key, by_binding["elsewhere"].fields) == (
        "Binding elsewhere is for conversation hall; the event has room."
    )
    assert "hall" in sentence(by_binding["elsewhere"].key, by_binding["elsewhere"].fields, "zh_Hans")


def test_an_event_without_a_binding_gets_a_resolution() -> None:
    found = resolve(event(), [bound("b", conversation="hall")], AGENTS)
    assert (found.binding_id, found.binding, found.agent) == (None, None, None)
    assert [step.key for step in found.steps] == ["scope_differs", "no_binding"]
    assert RoutingTable([]).resolve(event(), AGENTS) == Resolution()


def test_an_event_of_a_missing_bound_agent_is_not_routed_to_another_agent() -> None:
    bindings = [bound("wide"), bound("narrow", "gone", conversation="room")]
    for found in (resolve(event(), bindings, AGENTS), RoutingTable(bindings).resolve(event(), AGENTS)):
        assert found.binding_id == "narrow"
        assert found.agent is None
        assert found.steps[-1] == RoutingStep(key="no_agent", fields={"agent": "gone"})


def test_an_event_with_an_agent_needs_no_binding() -> None:
    book = AgentRegistry()
    book.put(AGENTS["molly"])
    for found in (
        resolve(event(), LADDER, book, agent="molly"),
        RoutingTable(LADDER).resolve(event(), book, agent="molly"),
    ):
        assert found == Resolution(
            binding_id="direct:molly",
            agent=AGENTS["molly"],
            steps=(RoutingStep(key="direct", fields={"agent": "molly"}),),
        )
    missing = resolve(event(), LADDER, book, agent="gone")
    assert (missing.binding_id, missing.agent) == ("direct:gone", None)
    assert [step.key for step in missing.steps] == ["direct", "no_agent"]


class Counted:
    """An event that counts how often its data is looked at: once for each binding whose filter is tried."""

    def __init__(self, of: NewEvent) -> None:
        self._of = of
        self.looks = 0

    def __getattr__(self, name: str) -> Any:
        if name == "data":
            self.looks += 1
        return getattr(self._of, name)


def test_bindings_of_other_scopes_are_skipped() -> None:
    many = [bound(f"b{index}", conversation=f"room{index}", filters={"data.k": ["x"]}) for index in range(1000)]
    counted = Counted(event(conversation="room7", data={"k": "x"}))
    routed: RoutedEvent = counted  # type: ignore[assignment]
    assert RoutingTable([*many, bound("wide")]).find(routed) is many[7]
    assert counted.looks == 1


def test_clashing_bindings_still_give_one_resolution() -> None:
    pair = [bound("b"), bound("a")]
    for order in (pair, pair[::-1]):
        found = resolve(event(), order, AGENTS)
        assert found.binding_id == "a"
        assert [step.key for step in found.steps] == ["won", "outranked_by_name"]
        assert RoutingTable(order).find(event()) is found.binding


# --- the book ---


def test_a_registry_refuses_a_clash_and_stays_unchanged() -> None:
    book = BindingRegistry()
    book.put(bound("old", bot="x"))
    table = book.table()
    with pytest.raises(Conflict):
        book.check(bound("new", bot="x"))
    with pytest.raises(Conflict):
        book.put(bound("new", bot="x"))
    assert [found.binding_id for found in book.all()] == ["old"]
    assert book.table() is table


def test_a_registry_builds_its_table_once_per_change() -> None:
    book = BindingRegistry()
    book.put(bound("a", "molly"))
    first = book.table()
    assert book.table() is first
    book.put(bound("a", "polly", conversation="room"))
    assert book.table() is not first
    assert book.get("a") == bound("a", "polly", conversation="room")
    assert book.table().find(event(conversation="hall")) is None
    assert book.remove("a")
    assert not book.remove("a")
    assert book.table().find(event()) is None
    assert book.get("a") is None


def test_a_removed_or_moved_binding_causes_no_conflict() -> None:
    book = BindingRegistry()
    book.put(bound("a"))
    book.put(bound("a", bot="x"))
    book.put(bound("b"))
    assert book.remove("a")
    book.put(bound("c", bot="x"))
    assert [found.binding_id for found in book.all()] == ["b", "c"]


def test_a_registry_separates_workspaces() -> None:
    book = BindingRegistry()
    book.put(bound("a"), "north")
    book.put(bound("a", "molly"), "south")
    assert book.all() == []
    assert book.table().find(event()) is None
    found = book.table("south").find(event())
    assert found is not None
    assert found.agent_id == "molly"


# --- the words ---


def test_every_sentence_exists_in_every_language_with_the_same_fields() -> None:
    def fields(text: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}

    english, chinese = WORDS["en_US"], WORDS["zh_Hans"]
    assert set(english) == set(chinese)
    assert all(fields(english[key]) == fields(chinese[key]) for key in english)


def test_a_value_is_never_read_as_a_template() -> None:
    told = sentence("scope_absent", {"binding": "b", "level": "bot", "wanted": "{binding.__class__}"})
    assert "{binding.__class__}" in told
