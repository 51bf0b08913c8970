"""Lanes against a naive model: order, one run at a time, nothing lost."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.new_events import new_event
from tests.replacement import replace

from bollard.host.agents.admission import Interrupt, LaneRun, LaneView, Queue, Start, admit
from bollard.host.agents.lanes import LaneKey, Lanes, lane_of
from bollard.host.agents.policies import ConcurrencyMode, ConcurrencyPolicy
from bollard.host.errors import Conflict


def lane_key(conversation: str = "c", thread: str | None = None) -> LaneKey:
    return LaneKey(workspace="default", agent_id="echo", bot=None, conversation=conversation, thread=thread)


def run(run_id: str, event_id: str = "") -> LaneRun:
    return LaneRun(run_id=run_id, event_id=event_id, actor=("user", "ada"), steerable=True)


KEYS = [lane_key("one"), lane_key("two"), lane_key("one", "thread")]
MODES: list[ConcurrencyMode] = ["queue", "interrupt", "reject", "parallel"]


class LanesAgainstABook(RuleBasedStateMachine):
    """The model lists the runs of each conversation in arrival order, and derives the active ones."""

    def __init__(self) -> None:
        super().__init__()
        self.lanes = Lanes()
        self.came: dict[LaneKey, list[str]] = {key: [] for key in KEYS}
        self.parallel: set[str] = set()
        self.started: list[str] = []
        self.made = 0

    def active(self, key: LaneKey) -> list[str]:
        """A parallel run is active at once; any other when it is the first remaining one."""
        return [run_id for place, run_id in enumerate(self.came[key]) if run_id in self.parallel or place == 0]

    def new_run(self, key: LaneKey) -> str:
        self.made += 1
        self.came[key].append(f"r{self.made}")
        return f"r{self.made}"

    def note_start(self, key: LaneKey, run_id: str | None, was_active: list[str]) -> None:
        """The started run is the one that the model has just made active, if any."""
        fresh = [other for other in self.active(key) if other not in was_active]
        assert fresh == ([] if run_id is None else [run_id])
        self.started.extend(fresh)

    @rule(key=st.sampled_from(KEYS), mode=st.sampled_from(MODES))
    def message(self, key: LaneKey, mode: ConcurrencyMode) -> None:
        decided = admit(
            ConcurrencyPolicy(mode=mode), steering=False, lane=self.lanes.view(key), actor=("user", "ada"), message=True
        )
        was_active = self.active(key)
        if isinstance(decided, Start):
            run_id = self.new_run(key)
            if mode == "parallel":
                self.parallel.add(run_id)
            self.lanes.enter_active(key, run(run_id), parallel=mode == "parallel")
            self.note_start(key, run_id, was_active)
        elif isinstance(decided, Queue | Interrupt):
            run_id = self.new_run(key)
            self.note_start(key, self.lanes.enter_queue(key, run(run_id)), was_active)

    @rule(key=st.sampled_from(KEYS))
    def message_whose_conversation_changed_after_the_decision(self, key: LaneKey) -> None:
        was_active = self.active(key)
        run_id = self.new_run(key)
        self.note_start(key, self.lanes.enter_queue(key, run(run_id)), was_active)

    @rule(key=st.sampled_from(KEYS), run_id=st.sampled_from(["stranger", "r1"]))
    def jump_the_queue(self, key: LaneKey, run_id: str) -> None:
        if self.came[key]:
            with pytest.raises(Conflict):
                self.lanes.enter_active(key, run(run_id))

    @precondition(lambda self: any(self.came.values()))
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from([key for key in KEYS if self.came[key]]))
        run_id = data.draw(st.sampled_from(self.active(key)))
        was_active = self.active(key)
        self.came[key].remove(run_id)
        self.note_start(key, self.lanes.leave(key, run_id), was_active)
        assert self.lanes.leave(key, run_id) is None

    @precondition(lambda self: any(self.came.values()))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from([key for key in KEYS if self.came[key]]))
        run_id = data.draw(st.sampled_from(self.came[key]))
        waits = run_id not in self.active(key)
        assert self.lanes.cancel_queued(key, run_id) == waits
        if waits:
            assert self.lanes.leave(key, run_id) is None
            self.came[key].remove(run_id)

    @invariant()
    def the_books_agree(self) -> None:
        for key in KEYS:
            active = self.active(key)
            queued = [run_id for run_id in self.came[key] if run_id not in active]
            view = self.lanes.view(key) or LaneView()
            assert [each.run_id for each in view.active] == active
            assert [each.run_id for each in view.queued] == queued
            assert sum(run_id not in self.parallel for run_id in active) <= 1
        assert len(self.lanes) == sum(bool(came) for came in self.came.values())

    def teardown(self) -> None:
        for key in KEYS:
            while self.came[key]:
                was_active, run_id = self.active(key), self.active(key)[0]
                self.came[key].remove(run_id)
                self.note_start(key, self.lanes.leave(key, run_id), was_active)
        assert len(self.lanes) == 0
        assert len(self.started) == len(set(self.started))


TestLanesAgainstABook = LanesAgainstABook.TestCase
TestLanesAgainstABook.settings = settings(deadline=None, stateful_step_count=40)


def test_runs_of_a_conversation_start_in_arrival_order() -> None:
    lanes, key = Lanes(), lane_key()
    lanes.enter_active(key, run("a"))
    assert [lanes.enter_queue(key, run(name)) for name in ("b", "c", "d")] == [None, None, None]
    assert lanes.cancel_queued(key, "c")
    assert lanes.leave(key, "a") == "b"
    assert lanes.leave(key, "b") == "d"
    assert lanes.leave(key, "d") is None
    assert lanes.view(key) is None
    assert len(lanes) == 0


def test_the_next_run_is_active_in_the_same_step() -> None:
    lanes, key = Lanes(), lane_key()
    lanes.enter_active(key, run("a"))
    lanes.enter_queue(key, run("b"))
    lanes.leave(key, "a")
    assert lanes.view(key) == LaneView(active=(run("b"),))


def test_a_run_that_enters_an_empty_queue_starts() -> None:
    lanes, key = Lanes(), lane_key()
    lanes.enter_active(key, run("a"))
    lanes.leave(key, "a")
    assert lanes.enter_queue(key, run("b")) == "b"


def test_later_parallel_runs_do_not_delay_a_waiting_run() -> None:
    lanes, key = Lanes(), lane_key()
    lanes.enter_active(key, run("a"))
    lanes.enter_queue(key, run("b"))
    lanes.enter_active(key, run("p"), parallel=True)
    assert lanes.leave(key, "a") == "b"
    assert lanes.view(key) == LaneView(active=(run("b"), run("p")))


def test_a_run_waits_for_every_earlier_parallel_run() -> None:
    lanes, key = Lanes(), lane_key()
    lanes.enter_active(key, run("p"), parallel=True)
    lanes.enter_active(key, run("q"), parallel=True)
    assert lanes.enter_queue(key, run("a")) is None
    assert lanes.leave(key, "q") is None
    assert lanes.leave(key, "p") == "a"


def test_a_returned_message_waits_before_runs_queued_later() -> None:
    lanes, key = Lanes(), lane_key()
    lanes.enter_active(key, run("a", "e1"))
    for name, event_id in (("b", "e2"), ("d", "e4"), ("f", "e6")):
        lanes.enter_queue(key, run(name, event_id))
    for name, event_id in (("e", "e5"), ("c", "e3"), ("g", "e7")):
        assert lanes.enter_queue(key, run(name, event_id), given_back=True) is None
    assert [lanes.leave(key, name) for name in "abcdefg"] == [*"bcdefg", None]


def test_a_run_is_in_its_conversation_only_once() -> None:
    lanes, key = Lanes(), lane_key()
    lanes.enter_active(key, run("a"))
    lanes.enter_queue(key, run("b"))
    for name in ("a", "b"):
        with pytest.raises(Conflict, match="already") as caught:
            lanes.enter_queue(key, run(name))
        assert caught.value.details == {"reason": "run_in_lane", "run": name}
        with pytest.raises(Conflict, match="already"):
            lanes.enter_active(key, run(name), parallel=True)


def test_a_second_run_cannot_be_active_in_a_serial_conversation() -> None:
    lanes, key = Lanes(), lane_key()
    lanes.enter_active(key, run("a"))
    with pytest.raises(Conflict, match="busy") as caught:
        lanes.enter_active(key, run("b"))
    assert caught.value.hint == "queue the run"
    assert lanes.view(key) == LaneView(active=(run("a"),))


def test_an_unknown_run_changes_no_lane() -> None:
    lanes, key = Lanes(), lane_key()
    assert lanes.leave(key, "a") is None
    assert not lanes.cancel_queued(key, "a")
    lanes.set_waiting_messages(key, "a", 3)
    assert len(lanes) == 0


def test_messages_for_an_active_run_are_visible_in_the_lane() -> None:
    lanes, key = Lanes(), lane_key()
    lanes.enter_active(key, run("a"))
    lanes.enter_queue(key, run("b"))
    lanes.set_waiting_messages(key, "a", 7)
    lanes.set_waiting_messages(key, "b", 9)
    assert lanes.view(key) == LaneView(active=(replace(run("a"), waiting_messages=7),), queued=(run("b"),))


def test_an_event_belongs_to_the_lane_of_its_thread_and_needs_a_conversation() -> None:
    event = new_event(source="im", source_id="1", event_type="message.received", conversation="c", thread="t", bot="b")
    key = lane_of("echo", event.scope)
    assert key == LaneKey(workspace="default", agent_id="echo", bot="b", conversation="c", thread="t")
    whole = lane_of("echo", replace(event.scope, thread=None))
    assert whole is not None
    assert whole != key
    assert lane_of("echo", replace(event.scope, conversation=None)) is None
    assert lane_of("echo", replace(event.scope, thread="")) == whole
