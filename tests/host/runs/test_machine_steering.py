"""Steering messages in the state machine: every short history and every way to settle them."""

import itertools
from typing import Any, get_args

import pytest
from msgspec.structs import replace
from tests.tables import for_each

from bollard.host.runs.machine import EndCause, Ending, Fact, Release, RunState, ending_of, settled, step
from bollard.protocol import status_of_failure

Letter = tuple[str, dict[str, Any]]
STEERING: list[Letter] = [
    *(
        (f"steering.{move}", {"event_id": event_id})
        for move in ("queued", "injected", "acknowledged")
        for event_id in "ab"
    ),
    *(
        ("steering.dropped", {"event_id": event_id, "reason": "host.lost", "redispatch": again})
        for event_id in "ab"
        for again in (True, False)
    ),
]
OTHERS: list[Letter] = [
    ("run.started", {}),
    ("message.completed", {"message": {"role": "assistant", "content": "hello"}}),
    ("run.cancelled", {"reason": "cancelled"}),
    ("run.cancelled", {"reason": "cancelled", "superseded": True}),
    ("run.cancelled", {"reason": "host.lost"}),
    ("run.completed", {"finish_reason": "end"}),
    ("run.failed", {"code": "runner.error", "error": "no"}),
    ("run.failed", {"code": "cancelled", "error": "the runner says so"}),
    ("run.ended", {"status": "completed"}),
    ("api.called", {"action": "steering.pull", "outcome": "ok"}),
]
ENDINGS = [
    Ending("completed"),
    *(
        Ending(status_of_failure(code), code, "a sentence")
        for code in ("cancelled", "revoked", "runner.timeout", "runner.error", "runner.crashed", "host.lost")
    ),
]


def fold(letters: list[Letter]) -> RunState:
    state = RunState(on_message=True, status="running")
    for seq, (kind, data) in enumerate(letters, start=1):
        state, _ = step(state, Fact(kind, data, seq))
    return state


@pytest.mark.requirement("P09-04")
def test_every_history_up_to_five_records_keeps_each_message_in_one_place() -> None:
    """Histories that lead to equal states are walked on together, because a step knows nothing else."""
    alphabet = [*STEERING, *OTHERS]
    histories = 0
    layer: dict[str, tuple[RunState, int]] = {"": (RunState(on_message=True), 1)}
    for length in range(1, 6):
        behind: dict[str, tuple[RunState, int]] = {}
        for state, ways in layer.values():
            for letter in alphabet:
                after = _checked_step(state, letter, length)
                _check_settled(after)
                key = repr(replace(after, seq=0))
                behind[key] = (after, behind.get(key, (after, 0))[1] + ways)
                histories += ways
        layer = behind
    assert histories == sum(len(alphabet) ** length for length in range(1, 6))


def _checked_step(state: RunState, letter: Letter, seq: int) -> RunState:
    kind, data = letter
    claims, given_back = dict(state.claims), state.redispatched
    after, effects = step(state, Fact(kind, data, seq))
    assert (dict(state.claims), state.redispatched) == (claims, given_back), "a step changes nothing that others hold"
    if state.over or not kind.startswith("steering."):
        assert (dict(after.claims), after.redispatched) == (claims, given_back), "nothing else moves a message"
        return after
    assert effects == (), "a message changes nothing about the run itself"
    assert replace(after, seq=0, claims={}, redispatched=()) == replace(state, seq=0, claims={}, redispatched=())
    event_id = data["event_id"]
    match kind:
        case "steering.queued" | "steering.injected":
            claims[event_id] = "queued" if kind == "steering.queued" else "injected"
            assert list(after.claims.items()) == list(claims.items()), "oldest first, each once"
            assert after.redispatched == given_back
        case _:
            claims.pop(event_id, None)
            assert dict(after.claims) == claims
            again = (event_id,) if data.get("redispatch") is True else ()
            assert after.redispatched == given_back + again
    return after


def _check_settled(state: RunState) -> None:
    """At any end of a run, each message that it holds gets one record, and then it holds none."""
    stopped = state.cancel == "cancelled" and not state.superseded
    for ending in ENDINGS:
        records = settled(state, ending)
        assert [data["event_id"] for _, data in records] == list(state.claims)
        after = state
        for kind, data in records:
            claim = state.claims[str(data["event_id"])]
            answered = claim == "injected" and ending.status == "completed"
            assert (kind == "steering.acknowledged") is answered
            if not answered:
                assert data["redispatch"] is not stopped, "only the user's own stop drops for good"
                assert data["reason"] == (ending.code or "not_pulled")
            after, _ = step(after, Fact(kind, data, 9))
        if not state.over:
            assert after.claims == {}
            dropped = tuple(data["event_id"] for _, data in records if data.get("redispatch") is True)
            assert after.redispatched == state.redispatched + dropped


def test_returned_messages_keep_their_arrival_order() -> None:
    for order in itertools.permutations("abc"):
        given: list[Letter] = [("steering.queued", {"event_id": event_id}) for event_id in order]
        for pulled in (None, *order):
            pull: list[Letter] = [] if pulled is None else [("steering.injected", {"event_id": pulled})]
            state = fold([*given, *pull])
            for kind, data in settled(state, Ending("failed", "runner.crashed", "it died")):
                state, _ = step(state, Fact(kind, data, 9))
            assert state.redispatched == order


@for_each("cause", get_args(EndCause))
@for_each("cancel", [None, "cancelled", "revoked", "runner.timeout", "host.lost"])
@for_each("superseded", [False, True])
@for_each("terminal", [None, "run.completed", "runner.error", "cancelled"])
def test_only_a_completed_run_acknowledges_its_pulled_messages(
    cause: EndCause, cancel: str | None, terminal: str | None, superseded: bool
) -> None:
    letters: list[Letter] = [
        ("run.started", {}),
        ("message.completed", {"message": {"role": "assistant", "content": "x"}}),
        ("steering.queued", {"event_id": "pulled"}),
        ("steering.queued", {"event_id": "waits"}),
        ("steering.injected", {"event_id": "pulled"}),
    ]
    if terminal == "run.completed":
        letters.append((terminal, {"finish_reason": "end"}))
    elif terminal is not None:  # whatever the runner calls its failure, it is not the user's own stop
        letters.append(("run.failed", {"code": terminal, "error": "no"}))
    if cancel is not None:
        letters.append(("run.cancelled", {"reason": cancel, "superseded": superseded}))
    state = fold(letters)
    ending = ending_of(state, cause)
    (first, pulled), (second, waits) = settled(state, ending)
    completed = cancel is None and terminal == "run.completed" and cause != "broken"
    assert (first == "steering.acknowledged") is completed
    assert second == "steering.dropped", "one that was never pulled had no answer, however the run ended"
    stopped = cancel == "cancelled" and not superseded
    assert waits["redispatch"] is not stopped
    assert completed or pulled["redispatch"] is not stopped


def test_an_ended_run_takes_and_returns_no_message() -> None:
    state = fold([("steering.queued", {"event_id": "a"})])
    over, effects = step(state, Fact("run.ended", {"status": "completed"}, 5))
    assert effects == (Release(),)
    for kind, data in STEERING:
        assert step(over, Fact(kind, data, 6)) == (over, ())


def test_records_of_a_settled_run_replay_to_the_state_that_wrote_them() -> None:
    """Recovery feeds the machine from the log the same facts as the executor fed it live."""
    letters: list[Letter] = [
        ("run.started", {}),
        ("steering.queued", {"event_id": "a"}),
        ("steering.queued", {"event_id": "b"}),
        ("steering.injected", {"event_id": "a"}),
    ]
    for ending in ENDINGS:
        live, written = fold(letters), list(letters)
        for kind, data in settled(live, ending):
            live, _ = step(live, Fact(kind, data, len(written) + 1))
            written.append((kind, data))
        live, _ = step(live, Fact("run.ended", ending.data(), len(written) + 1))
        written.append(("run.ended", ending.data()))
        assert fold(written) == live
