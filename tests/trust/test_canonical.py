"""Canonical JSON against RFC 8785: its own examples, and properties that must hold for every value."""

import json
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tables import for_each

from bollard.protocol import JsonValue
from bollard.trust import NotCanonical, canonical_json, canonical_sha256

# RFC 8785, appendix B: the bits of a double, and how it is written.
NUMBERS = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]


@for_each(("bits", "text"), NUMBERS)
def test_a_double_is_written_as_in_the_rfc(bits: str, text: str) -> None:
    value = struct.unpack(">d", bytes.fromhex(bits))[0]
    assert canonical_json(value) == text.encode()


def test_the_example_of_the_rfc_has_its_bytes() -> None:
    value: JsonValue = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"\u002f",
        "literals": [None, True, False],
    }
    assert canonical_json(value) == (
        b'{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        b'"string":"\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


def test_keys_are_sorted_by_utf_16_code_units_as_in_the_rfc() -> None:
    names = {
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\U0001f600": "Emoji: Grinning Face",
        "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis",
    }
    written = canonical_json(dict(names))
    assert list(json.loads(written).values()) == [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small Letter O With Diaeresis",
        "Euro Sign",
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh",
    ]


@for_each(
    ("character", "written"),
    [
        ("\b", b'"\\b"'),
        ("\t", b'"\\t"'),
        ("\n", b'"\\n"'),
        ("\f", b'"\\f"'),
        ("\r", b'"\\r"'),
        ('"', b'"\\""'),
        ("\\", b'"\\\\"'),
        ("\x00", b'"\\u0000"'),
        ("\x1f", b'"\\u001f"'),
        ("\x7f", b'"\x7f"'),
        ("/", b'"/"'),
        ("\u2028", '"\u2028"'.encode()),
        ("\U0001f600", '"\U0001f600"'.encode()),
    ],
)
def test_only_necessary_characters_are_escaped(character: str, written: bytes) -> None:
    assert canonical_json(character) == written


@for_each(
    "value",
    [
        float("nan"),
        float("inf"),
        float("-inf"),
        "\ud800",
        "a\udfffb",
        {"\ud800": 1},
        {"a": {"b": ["\udc00"]}},
        2**53 + 1,
        -(2**53) - 1,
        [float("nan")],
    ],
)
def test_a_value_without_a_canonical_form_is_refused(value: JsonValue) -> None:
    with pytest.raises(NotCanonical) as refusal:
        canonical_json(value)
    assert refusal.value.problem


@pytest.mark.parametrize("value", [2**53, -(2**53), 0, -1])
def test_integers_are_written_plainly_up_to_their_limit(value: int) -> None:
    assert canonical_json(value) == str(value).encode()


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), inner, max_size=4)
    ),
    max_leaves=20,
)


def _shuffled(value: JsonValue) -> JsonValue:
    """An equal value that was built in another order."""
    if isinstance(value, dict):
        return {key: _shuffled(value[key]) for key in reversed(value)}
    if isinstance(value, list):
        return [_shuffled(item) for item in value]
    return value


def _as_a_double_beyond_the_bound(digits: str) -> int | float:
    return int(digits) if abs(int(digits)) <= 2**53 else float(digits)


@given(values)
@settings(max_examples=300, deadline=None)
def test_equal_values_have_the_same_bytes_and_read_back_equal(value: JsonValue) -> None:
    written = canonical_json(value)
    assert canonical_json(_shuffled(value)) == written
    assert canonical_sha256(_shuffled(value)) == canonical_sha256(value)
    read = json.loads(written, parse_int=_as_a_double_beyond_the_bound)
    assert read == value
    assert canonical_json(read) == written


@given(values, values)
@settings(max_examples=200, deadline=None)
def test_values_that_differ_in_json_have_different_bytes(left: JsonValue, right: JsonValue) -> None:
    same = json.loads(json.dumps(left)) == json.loads(json.dumps(right))
    if canonical_json(left) == canonical_json(right):
        assert same


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=500, deadline=None)
def test_every_double_reads_back_the_same(value: float) -> None:
    assert float(canonical_json(value)) == value
