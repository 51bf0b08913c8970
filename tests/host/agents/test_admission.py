"""The admission decision for every lane of up to two active and two waiting runs, under every policy."""

from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import get_args

import pytest

from bollard.host.agents.admission import Admission, Interrupt, LaneRun, LaneView, Queue, Reject, Start, Steer, admit
from bollard.host.agents.policies import ConcurrencyMode, ConcurrencyPolicy
from bollard.host.scope import Actor
from bollard.protocol.limits import STEERING_QUEUE

ME = Actor("user", "ada")
OTHER = Actor("user", "bob")
MODES: tuple[ConcurrencyMode, ...] = get_args(ConcurrencyMode)
FULL = STEERING_QUEUE


def run(
    run_id: str, actor: Actor | None = ME, *, steerable: bool = True, waiting: int = 0, on_message: bool = True
) -> LaneRun:
    return LaneRun(run_id=run_id, actor=actor, steerable=steerable, waiting_messages=waiting, on_message=on_message)


def lanes() -> Iterator[LaneView]:
    kinds = tuple(product((ME, OTHER, None), (True, False), (FULL - 1, FULL)))
    for active in range(3):
        for chosen in product(kinds, repeat=active):
            runs = tuple(
                run(f"a{index}", actor, steerable=steerable, waiting=waiting)
                for index, (actor, steerable, waiting) in enumerate(chosen)
            )
            for queued in range(3):
                for actors in product((ME, OTHER, None), repeat=queued):
                    waiting_runs = tuple(run(f"q{index}", actor) for index, actor in enumerate(actors))
                    yield LaneView(active=runs, queued=waiting_runs)


def expected(policy: ConcurrencyPolicy, steering: bool, lane: LaneView | None, actor: Actor | None) -> Admission:
    """The rules as a table: first the cases without steering, then the obstacles to steering."""
    if policy.mode == "parallel" or lane is None or lane == LaneView():
        return Start()
    without_steering: dict[str, Admission] = {
        "queue": Queue(),
        "interrupt": Interrupt(tuple(each.run_id for each in lane.active)) if lane.active else Queue(),
        "reject": Reject("the agent is busy with this conversation and takes one message at a time"),
    }
    if policy.mode != "steer":
        return without_steering[policy.mode]
    speakers = {ME, OTHER, None} if policy.steer_from == "conversation" else {actor} - {None}
    targets = [each for each in lane.active if each.actor in speakers and each.steerable]
    overtaken = [each for each in lane.queued if each.actor in speakers]
    obstacles = (not steering, not targets, overtaken, targets and targets[0].waiting_messages >= FULL)
    return Queue() if any(obstacles) else Steer(targets[0].run_id)


@pytest.mark.requirement("P09-03", "P09-07", "P09-08")
def test_every_admission_follows_the_table() -> None:
    seen = Counter[tuple[str, type[Admission]]]()
    policies = [
        ConcurrencyPolicy(mode=mode, steer_from=steer_from)
        for mode in MODES
        for steer_from in ("same_actor", "conversation")
    ]
    for lane in (None, *lanes()):
        for policy, steering, actor in product(policies, (True, False), (ME, None)):
            decided = admit(policy, steering=steering, lane=lane, actor=actor, message=True)
            assert decided == expected(policy, steering, lane, actor), (policy, steering, lane, actor)
            seen[policy.mode, type(decided)] += 1
    outcomes = {
        "steer": {Start, Steer, Queue},
        "queue": {Start, Queue},
        "interrupt": {Start, Interrupt, Queue},
        "reject": {Start, Reject},
        "parallel": {Start},
    }
    assert {(mode, kind) for mode, kinds in outcomes.items() for kind in kinds} == set(seen)


@pytest.mark.requirement("P09-06")
def test_only_the_actor_steers_a_run_unless_the_conversation_may() -> None:
    policy = ConcurrencyPolicy(mode="steer")
    for lane in lanes():
        for actor in (ME, OTHER, None):
            decided = admit(policy, steering=True, lane=lane, actor=actor, message=True)
            if isinstance(decided, Steer):
                (target,) = (each for each in lane.active if each.run_id == decided.run_id)
                assert actor is not None
                assert target.actor == actor
                assert target.steerable
                assert target.waiting_messages < STEERING_QUEUE


STEER = ConcurrencyPolicy(mode="steer")
STEER_ALL = ConcurrencyPolicy(mode="steer", steer_from="conversation")


def test_the_oldest_run_of_the_same_actor_is_steered() -> None:
    lane = LaneView(active=(run("a", OTHER), run("b"), run("c")))
    assert admit(STEER, steering=True, lane=lane, actor=ME, message=True) == Steer("b")
    assert admit(STEER_ALL, steering=True, lane=lane, actor=ME, message=True) == Steer("a")


def test_a_message_is_queued_when_the_oldest_run_is_full() -> None:
    lane = LaneView(active=(run("a", waiting=FULL), run("b")))
    assert admit(STEER, steering=True, lane=lane, actor=ME, message=True) == Queue()


def test_a_message_does_not_overtake_one_of_the_same_actor_but_may_overtake_others() -> None:
    mine = LaneView(active=(run("a"),), queued=(run("q"),))
    others = LaneView(active=(run("a"),), queued=(run("q", OTHER),))
    assert admit(STEER, steering=True, lane=mine, actor=ME, message=True) == Queue()
    assert admit(STEER, steering=True, lane=others, actor=ME, message=True) == Steer("a")
    assert admit(STEER_ALL, steering=True, lane=others, actor=ME, message=True) == Queue()


def test_two_events_without_an_actor_count_as_different_actors() -> None:
    lane = LaneView(active=(run("a", None),))
    assert admit(STEER, steering=True, lane=lane, actor=None, message=True) == Queue()
    assert admit(STEER_ALL, steering=True, lane=lane, actor=None, message=True) == Steer("a")


def test_an_interruption_names_every_active_run_and_no_waiting_run() -> None:
    lane = LaneView(active=(run("a"), run("b", OTHER, steerable=False)), queued=(run("q"),))
    assert admit(ConcurrencyPolicy(mode="interrupt"), steering=False, lane=lane, actor=ME, message=True) == Interrupt(
        ("a", "b")
    )


def test_a_rejection_has_a_reason() -> None:
    decided = admit(
        ConcurrencyPolicy(mode="reject"), steering=True, lane=LaneView(queued=(run("q"),)), actor=ME, message=True
    )
    assert isinstance(decided, Reject)
    assert "busy" in decided.sentence


@pytest.mark.requirement("P09-08")
def test_an_event_other_than_a_message_waits_its_turn_under_every_policy() -> None:
    for mode, steer_from in product(MODES, ("same_actor", "conversation")):
        policy = ConcurrencyPolicy(mode=mode, steer_from=steer_from)
        for lane, actor in product((None, *lanes()), (ME, None)):
            decided = admit(policy, steering=True, lane=lane, actor=actor, message=False)
            free = mode == "parallel" or lane is None or lane == LaneView()
            assert decided == (Start() if free else Queue()), (policy, lane)


def test_a_message_passes_a_waiting_event_that_cannot_steer() -> None:
    lane = LaneView(active=(run("a"),), queued=(run("q", on_message=False),))
    assert admit(STEER, steering=True, lane=lane, actor=ME, message=True) == Steer("a")
    assert admit(STEER_ALL, steering=True, lane=lane, actor=OTHER, message=True) == Steer("a")
    behind = LaneView(active=(run("a"),), queued=(run("q", on_message=False), run("r")))
    assert admit(STEER, steering=True, lane=behind, actor=ME, message=True) == Queue()
