"""Any CloudEvent gives a draft or a typed error."""

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bollard.host.errors import HostError
from bollard.host.http.events.cloudevents import header_attributes, structured_event
from bollard.host.http.events.event_data import json_data, read_document, summary_of
from bollard.host.limits import EVENT_DATA_BYTES, EVENT_SUMMARY_BYTES, EVENT_SUMMARY_KEYS

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=40)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=20), inner, max_size=5),
    max_leaves=20,
)
NAMES = st.sampled_from(
    [
        *("specversion", "id", "source", "type", "subject", "time", "data", "data_base64", "datacontenttype"),
        *("expirytime", "traceparent", "actorid", "conversation", "agent", "extension", "Bad", "bad-name"),
    ]
)
GOOD: dict[str, Any] = {"specversion": "1.0", "id": "1", "source": "s", "type": "t"}


def judged(call: Callable[[], Any]) -> Any:
    """Its result, or its refusal. Any other exception fails the test."""
    try:
        return call()
    except HostError as error:
        return error


@given(st.dictionaries(NAMES, VALUES))
def test_any_attributes_give_an_event_or_a_refusal(more: dict[str, Any]) -> None:
    for event in (more, {**GOOD, **more}):
        outcome = judged(lambda event=event: structured_event(event).event("default", caller="key:1", traceparent=None))
        if isinstance(outcome, HostError):
            assert (bool(outcome.hint), bool(outcome.details["field"])) == (True, True)


@given(st.dictionaries(st.text(max_size=30).map(lambda name: f"ce-{name}"), st.text(max_size=40)))
def test_any_headers_give_attributes_or_a_refusal(headers: dict[str, str]) -> None:
    for given_headers in (headers, {**{f"ce-{name}": value for name, value in GOOD.items()}, **headers}):
        found = judged(lambda headers=given_headers: header_attributes(headers)["specversion"])
        assert found == "1.0" or found.hint


@given(st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_document_is_an_object_or_a_refusal(body: bytes) -> None:
    found = judged(lambda: read_document(body))
    assert found.hint if isinstance(found, HostError) else (isinstance(found[0], dict), found[1]) == (True, None)


@given(VALUES)
def test_data_is_passed_to_the_run_or_stored_raw(value: Any) -> None:
    data = json_data(value)
    assert data.large is None
    if value is not None:
        assert data.values == (value if isinstance(value, dict) else {"value": value})


def test_oversized_data_is_stored_raw_with_a_summary() -> None:
    deep: Any = 1
    for _ in range(60):
        deep = [deep]
    for value in ({"k": 1, "big": "x" * EVENT_DATA_BYTES}, {"k": 1, "many": [0] * 9000}, {"k": 1, "deep": deep}):
        data = json_data(value)
        assert data.large is not None
        assert (data.values, json.loads(data.large.body or b"")) == ({"k": 1}, value)


def test_a_summary_is_bounded() -> None:
    body = json.dumps({f"k{number}": number for number in range(500)} | {"long": "x" * EVENT_SUMMARY_BYTES}).encode()
    summary = summary_of(body)
    assert (len(summary), "long" in summary) == (EVENT_SUMMARY_KEYS, False)
    for nothing in (b"[1, 2]", b"{", b"\xff", b"[" * 100_000):
        assert summary_of(nothing) == {}


def test_the_data_of_a_large_document_keeps_its_bytes() -> None:
    data = b'{ "spaced" :  [1,2 ], "n": ' + b"[" * 50 + b"]" * 50 + b', "many": [' + b"0," * 20_000 + b"0]}"
    document, large = read_document(b'{"id": "7", "data": ' + data + b', "type": "t"}')
    assert (document, large) == ({"id": "7", "type": "t"}, data)
