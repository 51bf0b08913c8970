"""What a decoded frame is: a call, a note, an answer, a failure, or a fault."""

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bollard.wire import FrameError, decode
from bollard.wire.envelope import (
    Answer,
    Call,
    Failure,
    Note,
    answer_frame,
    call_frame,
    failure_frame,
    note_frame,
    open_envelope,
)

V = {"jsonrpc": "2.0"}


@pytest.mark.parametrize("call_id", [1, 0, -5, "a", "", "x" * 256])
def test_what_we_write_opens_as_what_it_was(call_id: int | str) -> None:
    assert open_envelope(decode(call_frame(call_id, "m", {"a": 1}))) == Call(call_id, "m", {"a": 1})
    assert open_envelope(decode(answer_frame(call_id, [1]))) == Answer(call_id, [1])
    assert open_envelope(decode(answer_frame(call_id, None))) == Answer(call_id, None)
    assert open_envelope(decode(failure_frame(call_id, -1, "no"))) == Failure(call_id, -1, "no", None)
    assert open_envelope(decode(failure_frame(None, -1, "no", {"d": 1}))) == Failure(None, -1, "no", {"d": 1})
    assert open_envelope(decode(note_frame("m", {}))) == Note("m", {})


def test_params_may_be_absent() -> None:
    assert open_envelope({**V, "method": "m"}) == Note("m", {})
    assert open_envelope({**V, "id": 1, "method": "m"}) == Call(1, "m", {})


@pytest.mark.requirement("P11-43")
@pytest.mark.parametrize(
    "value",
    [
        None,
        1,
        "x",
        True,
        [],
        [{**V, "method": "m"}],
        {},
        V,
        {"method": "m"},
        {"jsonrpc": "1.0", "method": "m"},
        {"jsonrpc": 2.0, "method": "m"},
        {**V, "method": 1},
        {**V, "method": None},
        {**V, "method": "m", "params": []},
        {**V, "method": "m", "params": None},
        {**V, "method": "m", "id": None},
        {**V, "method": "m", "id": True},
        {**V, "method": "m", "id": 1.5},
        {**V, "method": "m", "id": {}},
        {**V, "method": "m", "id": "x" * 257},
        {**V, "result": 1},
        {**V, "id": None, "result": 1},
        {**V, "id": 1},
        {**V, "id": 1, "result": 1, "error": {"code": 1, "message": "m"}},
        {**V, "id": 1, "error": "no"},
        {**V, "id": 1, "error": {}},
        {**V, "id": 1, "error": {"code": "1", "message": "m"}},
        {**V, "id": 1, "error": {"code": True, "message": "m"}},
        {**V, "id": 1, "error": {"code": 1, "message": None}},
        {**V, "id": [], "error": {"code": 1, "message": "m"}},
    ],
)
def test_whatever_is_no_message_is_an_envelope_fault(value: Any) -> None:
    with pytest.raises(FrameError) as caught:
        open_envelope(value)
    assert caught.value.fault == "envelope"


members = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.sampled_from(["2.0", 2, None]),
        "id": st.none() | st.integers() | st.text(max_size=3) | st.booleans() | st.just([]),
        "method": st.text(max_size=3) | st.integers() | st.none(),
        "params": st.just({}) | st.just([]) | st.none(),
        "result": st.integers() | st.none(),
        "error": st.fixed_dictionaries(
            {}, optional={"code": st.integers() | st.text(), "message": st.text() | st.none()}
        )
        | st.none(),
        "extra": st.integers(),
    },
)


@settings(deadline=None)
@given(members | st.lists(members, max_size=2))
def test_any_object_opens_or_is_a_fault(value: Any) -> None:
    with contextlib.suppress(FrameError):
        assert isinstance(open_envelope(value), Call | Note | Answer | Failure)
