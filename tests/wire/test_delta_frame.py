"""The fast path for text deltas accepts exactly one encoding; other frames get the verdict of the general path."""

import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.tables import for_each

from bollard.protocol import limits
from bollard.wire import FrameError, decode, encode
from bollard.wire.envelope import RESULT_ENVELOPE_BYTES, RESULT_PREFIX, encode_result, read_delta

texts = st.text(st.characters(codec="utf-8"), max_size=30)


def delta(content: str = "hi", run_id: str = "r1", sequence: int = 1, **more: Any) -> dict[str, Any]:
    data = {"chunk": {"role": "assistant", "content": content}}
    if "message_id" in more:
        data["message_id"] = more.pop("message_id")
    return {"run_id": run_id, "type": "message.delta", "data": data, "sequence": sequence, **more}


def frame_of(params: dict[str, Any]) -> bytes:
    return encode({"jsonrpc": "2.0", "method": "run/result", "params": params})


@settings(deadline=None)
@given(
    content=texts,
    run_id=texts,
    sequence=st.integers(1, limits.INTEGER_MAX),
    more=st.fixed_dictionaries({}, optional={"message_id": texts, "timestamp": st.floats(0, 1e12)}),
)
def test_the_canonical_frame_is_read_completely(content: str, run_id: str, sequence: int, more: dict[str, Any]) -> None:
    params = delta(content, run_id, sequence, **more)
    read = read_delta(frame_of(params))
    assert read is not None
    assert read.to_wire() == params
    assert (read.text, read.run_id, read.sequence) == (content, run_id, sequence)


@settings(deadline=None)
@given(content=texts, run_id=texts, sequence=st.integers(1, limits.INTEGER_MAX))
def test_a_worker_writes_the_canonical_frame(content: str, run_id: str, sequence: int) -> None:
    params = delta(content, run_id, sequence)
    written = encode_result(run_id, "message.delta", params["data"], sequence)
    assert written == frame_of(params)
    assert len(written) - RESULT_ENVELOPE_BYTES == len(encode(params))
    assert read_delta(written) is not None


START = '{"jsonrpc":"2.0","method":"run/result","params":'
PLAIN = '{"run_id":"r","type":"message.delta","data":{"chunk":{"role":"assistant","content":"x"}},"sequence":1}'


@for_each(
    "params",
    [
        PLAIN.replace('"r"', '"r","run_id":"s"'),
        PLAIN.replace('"x"', '"x","content":"y"'),
        PLAIN.replace('"sequence":1', '"sequence":1,"sequence":2'),
        PLAIN.replace('"sequence":1', '"sequence":0'),
        PLAIN.replace('"sequence":1', '"sequence":-1'),
        PLAIN.replace('"sequence":1', '"sequence":1.0'),
        PLAIN.replace('"sequence":1', '"sequence":"1"'),
        PLAIN.replace('"sequence":1', '"sequence":true'),
        PLAIN.replace('"sequence":1', '"sequence":9007199254740993'),
        PLAIN.replace('"sequence":1', '"sequence":' + "9" * 40),
        PLAIN.replace('"sequence":1', '"sequence":1,"timestamp":NaN'),
        PLAIN.replace('"sequence":1', '"sequence":1,"timestamp":1e999'),
        PLAIN.replace('"sequence":1', '"sequence":1,"timestamp":-1.5'),
        PLAIN.replace('"sequence":1', '"sequence":1,"timestamp":5'),
        PLAIN.replace('"sequence":1', '"sequence":1,"timestamp":null'),
        PLAIN.replace('"sequence":1', '"sequence":1,"extra":1'),
        PLAIN.replace('"sequence":1', '"sequence": 1'),
        PLAIN.replace('"x"', '"x","extra":1'),
        PLAIN.replace('"x"', '"\\u0078"'),
        PLAIN.replace('"x"', '"\\/"'),
        PLAIN.replace('"x"', '"\\ud800"'),
        PLAIN.replace('"x"', '["x"]'),
        PLAIN.replace('"x"', "null"),
        PLAIN.replace("assistant", "user"),
        PLAIN.replace("message.delta", "message.completed"),
        PLAIN[:-1] + "} ",
        PLAIN + "}",
        PLAIN[:-1],
    ],
)
def test_every_other_spelling_takes_the_general_path(params: str) -> None:
    assert read_delta((START + PLAIN + "}").encode()) is not None
    assert read_delta((START + params + "}").encode()) is None


def test_raw_surrogates_and_deep_nesting_take_the_general_path() -> None:
    frame = (START + PLAIN + "}").encode()
    assert read_delta(frame.replace(b'"x"', b'"\xed\xa0\x80"')) is None
    assert read_delta(frame.replace(b'"x"', b'"\xff"')) is None
    assert read_delta(frame.replace(b'"x"', b"[" * 100_000)) is None
    assert read_delta(frame.replace(b'"x"', b'"x","y":' + b"[" * 100_000)) is None
    assert read_delta(frame[:-1]) is None
    assert read_delta(b" " + frame) is None
    assert read_delta(b"") is None


pieces = st.sampled_from(
    [
        b'"',
        b"\\",
        b"{",
        b"}",
        b",",
        b":",
        b"0",
        b"9" * 20,
        b" ",
        b"\xff",
        b"\x00",
        b"null",
        b"NaN",
        b'"a":1,',
        b"\xc3\xa9",
    ]
)


@settings(deadline=None, max_examples=500)
@given(content=texts, data=st.data())
def test_a_mutated_frame_is_never_misread(content: str, data: st.DataObject) -> None:
    frame = bytearray(frame_of(delta(content, message_id="m", timestamp=1.5)))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(frame) - 1))
        piece = data.draw(pieces | st.binary(min_size=1, max_size=2))
        frame[at : at + data.draw(st.integers(0, 2))] = piece
    mutated = bytes(frame)
    read = read_delta(mutated)
    if read is None:
        return
    # Taken by the quick way: then the general way takes it too, and reads the same.
    value = decode(mutated)
    assert isinstance(value, dict)
    assert value == {"jsonrpc": "2.0", "method": "run/result", "params": read.to_wire()}
    assert encode(value) == mutated


@settings(deadline=None)
@given(content=texts, indent=st.none() | st.integers(0, 2), ascii_only=st.booleans())
def test_a_frame_in_another_formatting_gives_the_same_on_the_general_path(
    content: str, indent: int | None, ascii_only: bool
) -> None:
    value = {"jsonrpc": "2.0", "method": "run/result", "params": delta(content)}
    written = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    assume(written != encode(value))
    assert read_delta(written) is None
    assert decode(written) == value


@pytest.mark.parametrize("content", ["\ud800", "a\udfffb"])
def test_a_delta_with_half_a_surrogate_pair_is_refused_before_it_is_sent(content: str) -> None:
    with pytest.raises(FrameError) as caught:
        encode_result("r", "message.delta", {"chunk": {"role": "assistant", "content": content}}, 1)
    assert caught.value.fault == "surrogate"


def test_the_prefix_starts_every_result_and_no_other_frame() -> None:
    assert encode({"jsonrpc": "2.0", "method": "run/result", "params": {}}) == RESULT_PREFIX + b"{}}"
