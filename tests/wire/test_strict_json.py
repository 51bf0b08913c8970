"""Every limit of a frame at its boundary, and the decoder against an independent implementation."""

import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.tables import for_each

from bollard.protocol import limits
from bollard.wire import FrameError, decode, encode
from bollard.wire.strict_json import encode_frame

EDGE = limits.INTEGER_MAX


def fault(frame: bytes) -> str | None:
    """The fault of a frame, or None for one that is accepted."""
    try:
        decode(frame)
    except FrameError as error:
        return error.fault
    return None


def sized(size: int) -> bytes:
    return b'"' + b"x" * (size - 2) + b'"'


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def in_string(text: bytes) -> bytes:
    return b'["' + text + b'"]'


# --- size, depth, nodes ---


@pytest.mark.requirement("P11-41")
def test_a_frame_of_exactly_the_limit_is_accepted_and_one_byte_more_is_not() -> None:
    assert fault(sized(limits.FRAME_BYTES)) is None
    assert fault(sized(limits.FRAME_BYTES + 1)) == "oversized"


def test_a_smaller_limit_of_the_connection_applies() -> None:
    assert decode(sized(64), frame_bytes=64) == "x" * 62
    with pytest.raises(FrameError) as caught:
        decode(sized(65), frame_bytes=64)
    assert caught.value.fault == "oversized"


@pytest.mark.requirement("P11-41")
@pytest.mark.parametrize("spaces", [b"", b" "])
def test_nesting_of_64_is_accepted_and_65_is_not(spaces: bytes) -> None:
    assert fault(spaces + nested(64)) is None
    assert fault(spaces + nested(65)) == "depth"
    objects = b'{"a":' * 64 + b"1" + b"}" * 64
    assert fault(spaces + objects) is None
    assert fault(spaces + b'{"a":' + objects + b"}") == "depth"


def test_depth_is_counted_along_one_path() -> None:
    assert fault(b"[" + b",".join([nested(63)] * 20) + b"]") is None
    assert fault(b"[" + b",".join([nested(63)] * 20 + [nested(64)]) + b"]") == "depth"


@pytest.mark.parametrize(("nodes", "expected"), [(limits.FRAME_NODES, None), (limits.FRAME_NODES + 1, "nodes")])
@pytest.mark.requirement("P11-41")
def test_ten_thousand_nodes_are_accepted_and_one_more_is_not(nodes: int, expected: str | None) -> None:
    assert fault(b"[" + b",".join([b"1"] * (nodes - 1)) + b"]") == expected
    assert fault(b"[" + b" , ".join([b"[ ]"] * (nodes - 1)) + b"]") == expected
    assert fault(b"[" + b",".join([b'",[{"'] * (nodes - 1)) + b"]") == expected
    members = b",".join(b'"%d":1' % number for number in range(nodes - 1))
    assert fault(b"{" + members + b"}") == expected


def test_brackets_and_commas_inside_strings_are_text() -> None:
    assert fault(in_string(b"[{" * 1000 + b"," * 20_000)) is None


def test_a_string_with_escaped_backslashes_hides_no_nesting() -> None:
    deep = nested(65)
    assert fault(b'["\\\\",' + deep + b"]") == "depth"
    assert fault(b'["\\\\\\"",' + deep + b"]") == "depth"
    assert fault(b'["\\\\\\\\",' + deep + b"]") == "depth"
    assert decode(b'["\\"' + b"[" * 100 + b'"]') == ['"' + "[" * 100]
    assert decode(b'["\\\\\\"' + b"[" * 100 + b'"]') == ['\\"' + "[" * 100]


# --- keys ---


@pytest.mark.requirement("P11-41")
@for_each("character", [b"k", "é".encode(), "好".encode(), "😀".encode(), b"\\n", b'\\"', b"\\u00e9"])
def test_a_key_of_256_characters_is_accepted_and_257_is_not(character: bytes) -> None:
    assert fault(b'{"' + character * 256 + b'":1}') is None
    assert fault(b'{"' + character * 257 + b'":1}') == "key_length"
    assert fault(b'[[{"a":{"' + character * 257 + b'":1}}]]') == "key_length"


def test_a_long_value_is_not_a_long_key() -> None:
    assert fault(b'{"a":"' + b"v" * 5000 + b'"}') is None


@pytest.mark.requirement("P11-41")
@for_each(
    "frame",
    [
        b'{"a":1,"a":2}',
        b'{"a":1,"a":1}',
        b'{"a":1,"\\u0061":2}',
        b'{"\\u0061":1,"a":2}',
        b'{"x":[{"b":1,"c":2,"b":3}]}',
        b'{"":1,"":2}',
        b'{"\\ud83d\\ude00":1,"\xf0\x9f\x98\x80":2}',
    ],
)
def test_duplicate_keys_are_refused_in_any_spelling(frame: bytes) -> None:
    assert fault(frame) == "duplicate_key"


def test_whitespace_between_values_changes_neither_the_value_nor_the_checks() -> None:
    assert decode(b' { "a" : [ 1 , "x  y" ] ,\r\n\t"b":null } ') == {"a": [1, "x  y"], "b": None}
    assert fault(b'{ "a" : 1, "b" : 2, "a" : 1 }') == "duplicate_key"
    assert fault(b'{ "a b" : 1, "a b" : 1 }') == "duplicate_key"
    assert fault(b'[ "\\ud800" ]') == "surrogate"
    assert fault(b"[ 9007199254740993 ]") == "number"
    assert fault(b'{ "%b" : 1 }' % (b"k" * 257)) == "key_length"


def test_the_same_key_in_different_objects_is_fine() -> None:
    assert decode(b'{"a":{"a":[{"a":1},{"a":2}]}}') == {"a": {"a": [{"a": 1}, {"a": 2}]}}


# --- numbers ---


@pytest.mark.requirement("P11-41")
@pytest.mark.parametrize("sign", [1, -1])
def test_integers_up_to_2_to_the_53_are_accepted(sign: int) -> None:
    for distance in (0, 1):
        assert decode(b"%d" % (sign * (EDGE - distance))) == sign * (EDGE - distance)
    for distance in (1, 2, EDGE):
        assert fault(b"%d" % (sign * (EDGE + distance))) == "number"
        assert fault(b'{"a":[%d]}' % (sign * (EDGE + distance))) == "number"


@for_each("digits", [17, 20, 31, 32, 33, 4300, 4301, 100_000, limits.FRAME_BYTES])
def test_a_huge_digit_string_is_refused_without_being_computed(digits: int) -> None:
    assert fault(b"9" * digits) == "number"


@for_each("frame", [b"1e400", b"-1e400", b"[1e999999999]", b"1" + b"0" * 400 + b".0", b'{"a":-9E+999}'])
def test_a_number_beyond_a_double_is_refused(frame: bytes) -> None:
    assert fault(frame) == "number"


@for_each("frame", [b"NaN", b"Infinity", b"-Infinity", b"[NaN]", b'{"a":-Infinity}'])
@pytest.mark.requirement("P11-41")
def test_nan_and_infinity_are_refused(frame: bytes) -> None:
    assert fault(frame) == "number"


@for_each("frame", [b"nan", b"inf", b"+1", b"01", b"1.", b".5", b"0x10", b"1_000", b"--1", "١".encode()])
def test_other_spellings_of_numbers_are_syntax_errors(frame: bytes) -> None:
    assert fault(frame) == "syntax"


def test_numbers_keep_their_value_in_any_spelling() -> None:
    assert decode(b"[1e2,1E+2,-0,-0.0,0.1,1e-400,12345678901234567e-5]") == [
        100.0,
        100.0,
        0,
        0.0,
        0.1,
        0.0,
        123456789012.34567,
    ]
    assert decode(b"1.0") == 1.0
    assert isinstance(decode(b"1.0"), float)
    assert isinstance(decode(b"1"), int)


# --- text ---


@pytest.mark.requirement("P11-41")
@for_each(
    "text", [b"\\ud800", b"\\udfff", b"\\udc00\\ud800", b"x\\ud83dy", b"\\ud83d\\ud83d\\ude00", b"\\uD800\\u0041"]
)
def test_half_a_surrogate_pair_is_refused_in_values_and_keys(text: bytes) -> None:
    assert fault(in_string(text)) == "surrogate"
    assert fault(b'{"' + text + b'":1}') == "surrogate"


def test_a_complete_surrogate_pair_is_a_character() -> None:
    assert decode(b'"\\ud83d\\ude00"') == "😀"
    assert decode(b'{"\\uD83D\\uDE00":"\\uDBFF\\uDFFF"}') == {"😀": "\U0010ffff"}


def test_an_escaped_backslash_before_u_is_not_an_escape() -> None:
    assert decode(b'"\\\\ud800"') == "\\ud800"


@pytest.mark.requirement("P11-41")
@for_each(
    "text",
    [
        b"\xff",
        b"\xc0\xaf",
        b"\xe0\x80\xaf",
        b"\xf0\x80\x80\xaf",
        b"\xed\xa0\x80",
        b"\xed\xbf\xbf",
        b"\xed\xa0\xbd\xed\xb8\x80",
        b"\xf4\x90\x80\x80",
        b"\xc3",
        b"\x80",
    ],
)
def test_invalid_utf_8_is_refused_in_values_and_keys(text: bytes) -> None:
    assert fault(in_string(text)) == "encoding"
    assert fault(b'{"' + text + b'":1}') == "encoding"
    assert fault(b'{"' + b"k" * 300 + text + b'":1}') == "encoding"


@for_each("control", [bytes([number]) for number in range(32)])
def test_control_characters_are_refused_raw_and_accepted_escaped(control: bytes) -> None:
    assert fault(in_string(b"a" + control)) == "syntax"
    assert decode(in_string(b"\\u%04x" % control[0])) == [control.decode()]


@for_each(
    "frame",
    [
        b"",
        b" ",
        b"\xef\xbb\xbf{}",
        b"{}x",
        b"{} {}",
        b"1 2",
        b"[1,]",
        b"{,}",
        b'{"a"}',
        b'{"a":1,}',
        b"{1:2}",
        b"[",
        b'"',
        b'"\\x"',
        b'"\\u12"',
        b'"\\u 12a"',
        b"'a'",
        b"True",
        b"null\x00",
        b"\x0b1",
        b"//",
        b"]",
    ],
)
def test_an_invalid_json_document_is_a_syntax_error(frame: bytes) -> None:
    assert fault(frame) == "syntax"


def test_white_space_around_and_between_is_accepted() -> None:
    assert decode(b' \t\r\n{ "a" : [ 1 , 2 ] }\r\n') == {"a": [1, 2]}


def test_a_fault_does_not_quote_the_values_of_the_frame() -> None:
    for frame in (b'{"a":"hunter2"', b'{"a":"hunter2\\ud800"}', b'["hunter2",NaN]', b'["hunter2",1e999]'):
        with pytest.raises(FrameError) as caught:
            decode(frame)
        assert "hunter2" not in str(caught.value)


# --- properties ---

texts = st.text(st.characters(codec="utf-8"), max_size=40)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-EDGE, EDGE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.text('"\\[]{},:u0', max_size=20)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(texts, inner, max_size=6), max_leaves=30
)


@settings(deadline=None)
@given(
    value=values,
    indent=st.none() | st.integers(0, 3),
    separators=st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", "\r\n:  ")]),
    ascii_only=st.booleans(),
)
def test_any_value_within_the_limits_is_read_in_any_formatting(
    value: Any, indent: int | None, separators: tuple[str, str], ascii_only: bool
) -> None:
    written = json.dumps(value, indent=indent, separators=separators, ensure_ascii=ascii_only).encode()
    read = decode(written)
    assert read == value
    assert repr(read) == repr(value)  # 1 is not 1.0 and not true


@settings(deadline=None)
@given(values)
def test_a_written_value_reads_back_the_same(value: Any) -> None:
    assert repr(decode(encode(value))) == repr(value)
    assert encode_frame(value) == encode(value)


def strictly(frame: bytes) -> Any:
    """The same rules, written with the standard library alone and without any short cut."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({key for key, _ in items}) == len(items)
        assert all(len(key) <= 256 for key, _ in items)
        return dict(items)

    def integer(digits: str) -> int:
        assert len(digits) <= 17
        assert abs(int(digits)) <= EDGE
        return int(digits)

    def floating(digits: str) -> float:
        assert math.isfinite(float(digits))
        return float(digits)

    def constant(name: str) -> Any:
        raise AssertionError(name)

    text = frame.decode("utf-8")
    value = json.loads(text, object_pairs_hook=pairs, parse_int=integer, parse_float=floating, parse_constant=constant)
    json.dumps(value, ensure_ascii=False).encode()
    count, depth = walk(value)
    assert count <= limits.FRAME_NODES
    assert depth <= limits.FRAME_DEPTH
    return value


def walk(value: Any) -> tuple[int, int]:
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
    if inner is None:
        return 1, 0
    walked = [walk(item) for item in inner]
    return 1 + sum(count for count, _ in walked), 1 + max((depth for _, depth in walked), default=0)


tokens = st.sampled_from(
    [
        b"{", b"}", b"[", b"]", b",", b":", b'"', b'"a"', b'"\\u0061"', b"\\", b'\\"', b"\\\\", b"\\ud800", b"\\ude00",
        b"1", b"-", b"0", b"9007199254740993", b"1e400", b"1e5", b"NaN", b"null", b"true", b" ", b"\xff", b"\xc3\xa9",
        b'{"a":1', b',"a":2}', b'"' + b"k" * 257 + b'":', b"[" * 33, b"]" * 33, b"\xef\xbb\xbf", b"\x00",
    ]
)  # fmt: skip


@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=200) | st.lists(tokens, max_size=40).map(b"".join))
def test_any_bytes_are_read_by_the_plain_rules_or_refused(frame: bytes) -> None:
    try:
        expected = strictly(frame)
    except (AssertionError, ValueError, RecursionError):
        assert fault(frame) is not None
    else:
        assert repr(decode(frame)) == repr(expected)


@settings(deadline=None, max_examples=200)
@given(value=values, data=st.data())
def test_a_mutated_document_is_read_by_the_plain_rules_or_refused(value: Any, data: st.DataObject) -> None:
    frame = bytearray(encode(value))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(frame)))
        frame[at : at + data.draw(st.integers(0, 2))] = data.draw(tokens)
    try:
        expected = strictly(bytes(frame))
    except (AssertionError, ValueError, RecursionError):
        assert fault(bytes(frame)) is not None
    else:
        assert repr(decode(bytes(frame))) == repr(expected)


@for_each(
    "frame",
    [
        b"[" * limits.FRAME_BYTES,
        b"]" * limits.FRAME_BYTES,
        b'"' * limits.FRAME_BYTES,
        b"\\" * limits.FRAME_BYTES,
        b'\\"' * (limits.FRAME_BYTES // 2),
        b'{"a":' * (limits.FRAME_BYTES // 5),
        b'"' + b'\\"' * (limits.FRAME_BYTES // 2 - 1) + b'"',
        b'"' + b"\\u0000" * (limits.FRAME_BYTES // 6 - 1) + b'"',
        b"[" * 64 + b" " * (limits.FRAME_BYTES - 129) + b"1" + b"]" * 64,
        b"[" * 65 + b"1" * (limits.FRAME_BYTES - 65),
        b"0." + b"1" * (limits.FRAME_BYTES - 2),
        b"1e" + b"0" * (limits.FRAME_BYTES - 3) + b"1",
        b"[" + b"," * (limits.FRAME_BYTES - 1),
        b'{"' + b"k" * (limits.FRAME_BYTES - 6) + b'":1}',
        b'"' + "😀".encode() * (limits.FRAME_BYTES // 4 - 1) + b'"',
        b"\xff" * limits.FRAME_BYTES,
    ],
    ids=range(16),
)
def test_a_frame_made_to_be_slow_is_handled_in_time(frame: bytes) -> None:
    assert len(frame) <= limits.FRAME_BYTES
    assert fault(frame) in {None, "depth", "nodes", "syntax", "key_length", "number", "encoding"}


# --- what we send ---


@for_each(
    ("value", "expected"),
    [
        ({"id": EDGE + 1}, "number"),
        ([float("nan")], "number"),
        ({"a": {"b": (1, float("inf"))}}, "number"),
        ({"k" * 257: 1}, "key_length"),
        ([0] * limits.FRAME_NODES, "nodes"),
        ("\ud800", "surrogate"),
    ],
)
def test_a_value_that_the_peer_would_refuse_is_refused_before_it_is_sent(value: Any, expected: str) -> None:
    with pytest.raises(FrameError) as caught:
        encode_frame(value)
    assert caught.value.fault == expected


def test_a_value_nested_too_deep_is_refused_before_it_is_sent() -> None:
    value: Any = 1
    for _ in range(65):
        value = [value]
    with pytest.raises(FrameError) as caught:
        encode_frame(value)
    assert caught.value.fault == "depth"
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(FrameError) as caught:
        encode_frame(circle)
    assert caught.value.fault == "depth"


def test_null_can_be_sent() -> None:
    assert encode_frame({"a": None, "b": [None, 1.5]}) == b'{"a":null,"b":[null,1.5]}'
