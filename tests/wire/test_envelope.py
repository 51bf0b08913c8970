"""Decoded frames: requests, notifications, responses, errors and faults."""

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tables import for_each

from bollard.wire import FrameError, decode
from bollard.wire.envelope import (
    ErrorResponse,
    Notification,
    Request,
    Response,
    encode_error,
    encode_notification,
    encode_request,
    encode_response,
    read_envelope,
)

V = {"jsonrpc": "2.0"}


@for_each("call_id", [1, 0, -5, "a", "", "x" * 256])
def test_a_written_envelope_reads_back_the_same(call_id: int | str) -> None:
    assert read_envelope(decode(encode_request(call_id, "m", {"a": 1}))) == Request(call_id, "m", {"a": 1})
    assert read_envelope(decode(encode_response(call_id, [1]))) == Response(call_id, [1])
    assert read_envelope(decode(encode_response(call_id, None))) == Response(call_id, None)
    assert read_envelope(decode(encode_error(call_id, -1, "no"))) == ErrorResponse(call_id, -1, "no", None)
    assert read_envelope(decode(encode_error(None, -1, "no", {"d": 1}))) == ErrorResponse(None, -1, "no", {"d": 1})
    assert read_envelope(decode(encode_notification("m", {}))) == Notification("m", {})


def test_params_may_be_absent() -> None:
    assert read_envelope({**V, "method": "m"}) == Notification("m", {})
    assert read_envelope({**V, "id": 1, "method": "m"}) == Request(1, "m", {})


@pytest.mark.requirement("P11-43")
@for_each(
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
def test_an_invalid_message_is_an_envelope_fault(value: Any) -> None:
    with pytest.raises(FrameError) as caught:
        read_envelope(value)
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
        assert isinstance(read_envelope(value), Request | Notification | Response | ErrorResponse)
