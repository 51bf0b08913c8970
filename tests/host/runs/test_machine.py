"""The state machine of a run: every short history and every ending."""

import itertools
from typing import Any, get_args

import pytest
from msgspec.structs import replace
from tests.tables import for_each

from bollard.host.limits import DRAFT_CHARACTERS, DRAFTS_CHARACTERS, DRAFTS_OF_RUN
from bollard.host.reason import Why
from bollard.host.runs.machine import (
    AwaitStart,
    Effect,
    EndCause,
    Ending,
    Fact,
    PauseTimers,
    Release,
    RunState,
    StartTimers,
    StartWorker,
    StopWorker,
    assembled,
    ending_of,
    last_records,
    step,
)
from bollard.protocol import HOST_RECORD_TYPES, RESULT_TYPES, RUN_STATUSES, TERMINAL_STATUSES, status_of_failure

HELLO = {"role": "assistant", "content": "hello"}
Letter = tuple[str, dict[str, Any], tuple[tuple[str, str], ...]]
ALPHABET: list[Letter] = [
    ("run.created", {}, ()),
    ("grant.issued", {}, ()),
    ("run.claimed", {}, ()),
    ("run.started", {}, ()),
    ("run.waiting", {}, ()),
    ("run.resumed", {}, ()),
    ("run.cancelled", {"reason": "cancelled"}, ()),
    ("run.cancelled", {"reason": "runner.timeout"}, ()),
    ("message.delta", {}, (("", "a"), ("m", "b"))),
    ("message.completed", {"message": HELLO}, ()),
    ("message.completed", {"message": HELLO, "message_id": "m"}, ()),
    ("run.completed", {"finish_reason": "end"}, ()),
    ("run.completed", {"finish_reason": "end", "message": HELLO}, ()),
    ("run.failed", {"code": "runner.error", "error": "no"}, ()),
    ("run.ended", {"status": "completed"}, ()),
    ("run.ended", {"status": "timeout", "code": "runner.timeout"}, ()),
    ("run.ended", {"status": "nonsense"}, ()),
    ("result.rejected", {}, ()),
    ("something.new", {}, ()),
]


def fact(letter: Letter, seq: int) -> Fact:
    kind, data, texts = letter
    return Fact(kind, data, seq, texts)


def fold(facts: list[Fact], *, on_message: bool = True) -> tuple[RunState, list[Effect]]:
    state, effects = RunState(on_message=on_message), list[Effect]()
    for one in facts:
        state, more = step(state, one)
        effects.extend(more)
    return state, effects


def test_the_alphabet_contains_every_fact_type_of_a_run() -> None:
    known = {kind for kind, _, _ in ALPHABET}
    assert {"run.ended", "result.rejected"} <= known
    assert set(RESULT_TYPES) & known == {"message.delta", "message.completed", "run.completed", "run.failed"}
    for kind in [*RESULT_TYPES, *HOST_RECORD_TYPES]:
        if kind not in known:
            before = RunState(on_message=True, status="running", seq=4)
            assert step(before, Fact(kind, {}, 5)) == (RunState(on_message=True, status="running", seq=5), ())


@pytest.mark.requirement("P05-29")
def test_every_history_up_to_five_records_obeys_the_rules() -> None:
    """All of them: histories that lead to equal states are walked on together, because a step knows nothing else."""
    histories = 0
    for on_message in (True, False):
        layer: dict[str, tuple[RunState, int]] = {"": (RunState(on_message=on_message), 1)}
        for length in range(1, 6):
            behind: dict[str, tuple[RunState, int]] = {}
            for state, ways in layer.values():
                for letter in ALPHABET:
                    after = _checked_step(state, letter, length)
                    key = repr(replace(after, seq=0))
                    behind[key] = (after, behind.get(key, (after, 0))[1] + ways)
                    histories += ways
            layer = behind
    assert histories == 2 * sum(len(ALPHABET) ** length for length in range(1, 6))


def _checked_step(state: RunState, letter: Letter, seq: int) -> RunState:
    after, effects = step(state, fact(letter, seq))
    assert after.status in RUN_STATUSES
    if state.over:
        assert (after, effects) == (state, ())
        return after
    kind = letter[0]
    assert after.seq == seq
    # A terminal status comes with `run.ended` and with nothing else; each effect comes at most once, with its cause.
    assert after.over is (kind == "run.ended")
    assert (Release() in effects) is (kind == "run.ended")
    assert any(isinstance(effect, StopWorker) for effect in effects) is (
        state.cancel is None and after.cancel is not None
    )
    assert (AwaitStart() in effects) is (state.terminal is None and after.terminal is not None)
    assert all(isinstance(effect, _allowed(kind)) for effect in effects)
    assert len(effects) <= 1
    # A published fact is never taken back.
    assert (after.cancel, after.terminal) == (state.cancel or after.cancel, state.terminal or after.terminal)
    assert after.spoke >= state.spoke
    return after


def _allowed(kind: str) -> tuple[type, ...]:
    match kind:
        case "run.claimed":
            return (StartWorker,)
        case "run.started" | "run.resumed":
            return (StartTimers,)
        case "run.waiting":
            return (PauseTimers,)
        case "run.cancelled":
            return (StopWorker,)
        case "run.completed" | "run.failed":
            return (AwaitStart,)
        case "run.ended":
            return (Release,)
        case _:
            return ()


@pytest.mark.requirement("P05-29")
def test_an_ended_run_never_changes() -> None:
    for status in sorted(TERMINAL_STATUSES):
        over, effects = step(RunState(on_message=True, status="running"), Fact("run.ended", {"status": status}, 9))
        assert (over.status, effects) == (status, (Release(),))
        for pair in itertools.product(ALPHABET, repeat=2):
            after = over
            for letter in pair:
                after, more = step(after, fact(letter, 10))
                assert more == ()
            assert after == over


def test_an_end_with_an_unknown_status_is_a_failure() -> None:
    state, _ = step(RunState(on_message=True), Fact("run.ended", {"status": "great"}, 1))
    assert state.status == "failed"


def test_the_first_stop_reason_is_final() -> None:
    state, effects = fold(
        [Fact("run.cancelled", {"reason": "runner.timeout"}, 1), Fact("run.cancelled", {"reason": "cancelled"}, 2)]
    )
    assert state.cancel == "runner.timeout"
    assert effects == [StopWorker("runner.timeout")]


def test_a_step_does_not_change_earlier_states() -> None:
    before, _ = step(RunState(on_message=True), Fact("message.delta", {}, 1, (("", "a"),)))
    left, _ = step(before, Fact("message.delta", {}, 2, (("", "b"),)))
    right, _ = step(before, Fact("message.completed", {"message": HELLO}, 2))
    assert assembled(before) == [{"message": {"role": "assistant", "content": "a"}}]
    assert assembled(left) == [{"message": {"role": "assistant", "content": "ab"}}]
    assert assembled(right) == []


# --- messages ---


@pytest.mark.requirement("P05-24")
def test_deltas_of_each_message_are_assembled_in_order() -> None:
    state, _ = fold(
        [
            Fact("message.delta", {}, 1, (("a", "one "), ("b", "uno "))),
            Fact("message.delta", {}, 2, (("", "free"),)),
            Fact("message.delta", {}, 3, (("b", "due"), ("a", "two"))),
        ]
    )
    assert assembled(state) == [
        {"message": {"role": "assistant", "content": "one two"}, "message_id": "a"},
        {"message": {"role": "assistant", "content": "uno due"}, "message_id": "b"},
        {"message": {"role": "assistant", "content": "free"}},
    ]


def test_a_completed_message_replaces_only_its_own_deltas() -> None:
    state, _ = fold(
        [
            Fact("message.delta", {}, 1, (("a", "draft"), ("b", "kept"))),
            Fact("message.completed", {"message": HELLO, "message_id": "a"}, 2),
        ]
    )
    assert assembled(state) == [{"message": {"role": "assistant", "content": "kept"}, "message_id": "b"}]


def test_a_message_of_empty_deltas_is_not_assembled_but_counts_as_output() -> None:
    state, _ = fold([Fact("message.delta", {}, 1, (("", ""),)), Fact("run.completed", {"finish_reason": "end"}, 2)])
    assert assembled(state) == []
    assert ending_of(state, "answered") == Ending("completed")


@pytest.mark.requirement("P05-25")
def test_the_message_of_the_terminal_result_counts_only_without_another_one() -> None:
    last = Fact("run.completed", {"finish_reason": "end", "message": HELLO}, 3)
    alone, _ = fold([last])
    assert assembled(alone) == [{"message": HELLO}]
    after_deltas, _ = fold([Fact("message.delta", {}, 1, (("", "hel"),)), last])
    assert assembled(after_deltas) == [{"message": HELLO}]
    after_another, _ = fold([Fact("message.completed", {"message": HELLO}, 1), last])
    assert assembled(after_another) == []


def test_ten_thousand_deltas_are_assembled_without_recursion() -> None:
    state, _ = fold([Fact("message.delta", {}, seq, (("", "x"),)) for seq in range(1, 10_001)])
    assert assembled(state) == [{"message": {"role": "assistant", "content": "x" * 10_000}}]


# --- how it ends: the whole table ---

TERMINALS: list[list[Fact]] = [
    [],
    [Fact("run.completed", {"finish_reason": "end"}, 5)],
    [Fact("run.failed", {"code": "budget_exceeded", "error": "no money"}, 5)],
    [Fact("run.failed", {}, 5)],
]
CANCELS = [None, "cancelled", "revoked", "runner.timeout", "host.lost", "budget_exceeded"]


@pytest.mark.requirement("P05-18", "P05-28", "P05-29", "P08-15")
@for_each("cause", get_args(EndCause))
@for_each("cancel", CANCELS)
@for_each("terminal", range(len(TERMINALS)))
@for_each("spoke", [False, True])
@for_each("on_message", [False, True])
def test_the_ending_of_a_run_follows_from_cause_cancel_and_results(
    cause: EndCause, cancel: str | None, terminal: int, spoke: bool, on_message: bool
) -> None:
    facts = [Fact("run.started", {}, 1)]
    if spoke:
        facts.append(Fact("message.delta", {}, 2, (("", "x"),)))
    facts += TERMINALS[terminal]
    if cancel is not None:
        facts.append(Fact("run.cancelled", {"reason": cancel}, 6))
    state, _ = fold(facts, on_message=on_message)
    ending = ending_of(state, cause)
    code = _expected(cause, cancel, terminal, silent=on_message and not spoke)
    assert ending.code == code
    assert ending.status == ("completed" if code is None else status_of_failure(code))
    assert (ending.error is None) is (code is None)
    over, _ = step(state, Fact("run.ended", ending.data(), 9))
    assert over.status == ending.status


def _expected(cause: EndCause, cancel: str | None, terminal: int, *, silent: bool) -> str | None:
    if cancel is not None:
        return cancel
    if terminal >= 2:
        return "budget_exceeded" if terminal == 2 else "runner.error"
    if cause == "broken":
        return "runner.protocol"
    if terminal == 1:
        return "runner.no_output" if silent else None
    return {
        "answered": "runner.protocol",
        "refused": "runner.protocol",
        "lost": "runner.crashed",
        "no_worker": "host.overloaded",
        "grace": "runner.timeout",
    }[cause]


def test_the_detail_of_a_cause_is_in_the_message_of_the_end() -> None:
    state = RunState(on_message=True, status="running")
    for cause in ("refused", "no_worker", "broken", "grace"):
        assert ending_of(state, cause, Why("because")).error == "because"


def test_the_end_of_a_run_names_the_lost_worker_before_the_connection_error() -> None:
    state = RunState(on_message=True, status="running")
    said = "the worker ended while the run was active"
    assert ending_of(state, "lost") == Ending("failed", "runner.crashed", said)
    assert ending_of(state, "lost", Why("the peer closed")) == Ending(
        "failed", "runner.crashed", f"{said}: the peer closed"
    )


def test_an_endless_message_is_truncated_and_counts_the_missing_characters() -> None:
    state = RunState(on_message=True, status="running")
    half = "x" * (DRAFT_CHARACTERS // 2 + 1)
    for seq in range(1, 5):
        state, _ = step(state, Fact("message.delta", {}, seq, (("", half),)))
    [message] = assembled(state)
    body = message["message"]
    assert isinstance(body, dict)
    assert body["content"] == "x" * DRAFT_CHARACTERS
    assert body["metadata"] == {"cut_characters": 4 * len(half) - DRAFT_CHARACTERS}


# --- incomplete messages, all of them together ---


def deltas(state: RunState, *texts: tuple[str, str]) -> RunState:
    after, effects = step(state, Fact("message.delta", {}, state.seq + 1, texts))
    assert effects == ()
    assert len(after.drafts) <= DRAFTS_OF_RUN
    assert after.drafted == sum(len(name) + draft.kept for name, draft in after.drafts.items()) <= DRAFTS_CHARACTERS
    assert all(draft.kept == len(draft.whole()) for draft in after.drafts.values())
    return after


def test_incomplete_messages_have_a_total_limit_that_ends_their_run() -> None:
    state, full = RunState(on_message=True, status="running"), "x" * DRAFT_CHARACTERS
    for number in range(DRAFTS_CHARACTERS // DRAFT_CHARACTERS - 1):
        state = deltas(state, (f"m{number}", full))
        assert not state.crowded
    for number in range(70):
        state = deltas(state, (f"n{number}", full))
    assert state.crowded
    assert sum(len(str(message["message"])) for message in assembled(state)) < 2 * DRAFTS_CHARACTERS
    for terminal in ([], [Fact("run.completed", {"finish_reason": "end"}, 99)]):
        last = state
        for one in terminal:
            last, _ = step(last, one)
        ending = ending_of(last, "answered")
        assert (ending.status, ending.code) == ("failed", "runner.protocol")
        assert ending.error is not None
        assert "message.completed" in ending.error
    stopped, _ = step(state, Fact("run.cancelled", {"reason": "runner.protocol"}, 99))
    assert ending_of(stopped, "answered") == ending_of(state, "answered")
    by_somebody, _ = step(state, Fact("run.cancelled", {"reason": "cancelled"}, 99))
    assert ending_of(by_somebody, "answered") == Ending("cancelled", "cancelled", "the run was stopped")


def test_the_number_of_incomplete_messages_is_limited() -> None:
    state = RunState(on_message=True, status="running")
    state = deltas(state, *((f"m{number}", "x") for number in range(DRAFTS_OF_RUN)))
    assert not state.crowded
    assert deltas(state, ("m0", "y")).drafts["m0"].whole() == "xy"
    assert not deltas(state, ("m0", "y")).crowded
    assert deltas(state, ("one more", "")).crowded


def test_long_message_ids_count_like_their_texts() -> None:
    state = deltas(RunState(on_message=True), ("i" * (DRAFTS_CHARACTERS - 1), "x"))
    assert not state.crowded
    assert deltas(state, ("i" * (DRAFTS_CHARACTERS - 1), "x")).crowded
    assert deltas(state, ("j", "")).crowded


def test_a_completed_message_frees_space_for_others() -> None:
    state, full = RunState(on_message=True, status="running"), "x" * DRAFT_CHARACTERS
    for number in range(70):
        state = deltas(state, (f"m{number}", full))
        whole = {"message": HELLO, "message_id": f"m{number}"}
        state, _ = step(state, Fact("message.completed", whole, state.seq + 1))
        assert (state.crowded, state.drafted) == (False, 0)
    state = deltas(state, ("", full))
    assert not state.crowded
    state, _ = step(state, Fact("message.completed", {"message": HELLO}, state.seq + 1))
    assert state.drafted == 0
    left, _ = step(deltas(RunState(on_message=True), ("a", "draft")), Fact("run.completed", {"message": HELLO}, 9))
    assert (left.drafted, dict(left.drafts)) == (0, {})


def test_a_text_of_single_letters_is_held_in_few_pieces() -> None:
    state = RunState(on_message=True)
    for seq in range(1, 20_001):
        state, _ = step(state, Fact("message.delta", {}, seq, (("", "x"),)))
    pieces, draft = 0, state.drafts[""]
    while draft is not None:
        pieces, draft = pieces + 1, draft.before
    assert pieces < 20


def test_a_run_that_ends_closes_the_questions_that_are_open() -> None:
    state = RunState(on_message=True)
    route = {"id": "qst_2.x", "channel": "chat"}
    for seq, (kind, data) in enumerate(
        (
            ("question.asked", {"question_id": "qst_1", "call_id": "c1", "question": "One?"}),
            ("question.asked", {"question_id": "qst_2", "call_id": "c2", "question": "Two?", "interaction": route}),
            ("question.answered", {"question_id": "qst_1", "answer": "yes"}),
        ),
        1,
    ):
        state, _ = step(state, Fact(kind, data, seq))
    (first, *_) = last_records(state, Ending("failed", "host.lost", "it died"), redispatch=False)
    over = {"question_id": "qst_2", "call_id": "c2", "interaction": route, "reason": "run_ended"}
    assert first == ("question.expired", over)
    state, _ = step(state, Fact(*first, 9))
    assert last_records(state, Ending("completed"), redispatch=False) == [("run.ended", {"status": "completed"})]
