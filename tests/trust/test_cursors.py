"""Cursors: made by this host for one call and one scope, and nothing else."""

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tables import for_each

from bollard.protocol import JsonValue
from bollard.trust import BadCursor, open_cursor, seal_cursor

SECRET = b"s" * 32
places = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(place=places, purpose=st.text(max_size=12), scope=st.text(max_size=12))
@settings(deadline=None)
def test_a_cursor_opens_with_its_sealed_position(place: JsonValue, purpose: str, scope: str) -> None:
    sealed = seal_cursor(SECRET, purpose=purpose, scope=scope, place=place)
    assert open_cursor(SECRET, sealed, purpose=purpose, scope=scope) == place


@pytest.mark.requirement("P05-33")
@for_each(
    ("secret", "purpose", "scope"),
    [
        (b"t" * 32, "runs.list", "acme"),
        (SECRET, "events.list", "acme"),
        (SECRET, "runs.list", "other"),
        (SECRET, "runs.lista", "cme"),
        (SECRET, "runs.lis", "tacme"),
        (SECRET, "", "runs.listacme"),
    ],
)
def test_a_cursor_is_valid_for_one_call_one_scope_and_one_host(secret: bytes, purpose: str, scope: str) -> None:
    sealed = seal_cursor(SECRET, purpose="runs.list", scope="acme", place=[1, "run_1"])
    with pytest.raises(BadCursor):
        open_cursor(secret, sealed, purpose=purpose, scope=scope)


def test_a_cursor_with_a_flipped_bit_does_not_open() -> None:
    sealed = seal_cursor(SECRET, purpose="p", scope="s", place=[1_700_000_000_000, "run_1"])
    raw = base64.urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))
    for at in range(len(raw) * 8):
        flipped = bytearray(raw)
        flipped[at // 8] ^= 1 << at % 8
        with pytest.raises(BadCursor):
            open_cursor(SECRET, base64.urlsafe_b64encode(flipped).decode().rstrip("="), purpose="p", scope="s")


def test_a_truncated_or_extended_cursor_does_not_open() -> None:
    sealed = seal_cursor(SECRET, purpose="p", scope="s", place=[1, "run_1"])
    for length in range(len(sealed)):
        with pytest.raises(BadCursor):
            open_cursor(SECRET, sealed[:length], purpose="p", scope="s")
    for more in ("A", "AAAA", sealed):
        with pytest.raises(BadCursor):
            open_cursor(SECRET, sealed + more, purpose="p", scope="s")


@given(st.text(max_size=80))
@settings(max_examples=300, deadline=None)
def test_no_random_text_is_a_cursor(text: str) -> None:
    with pytest.raises(BadCursor):
        open_cursor(SECRET, text, purpose="p", scope="s")


def test_an_overlong_cursor_is_not_parsed() -> None:
    sealed = seal_cursor(SECRET, purpose="p", scope="s", place="x" * 1000)
    with pytest.raises(BadCursor):
        open_cursor(SECRET, sealed, purpose="p", scope="s")


def test_every_refusal_has_the_same_text() -> None:
    sealed = seal_cursor(SECRET, purpose="p", scope="s", place=1)
    sentences: set[str] = set()
    for cursor, purpose, scope in [("?", "p", "s"), (sealed, "q", "s"), (sealed, "p", "t"), ("", "p", "s")]:
        with pytest.raises(BadCursor) as refusal:
            open_cursor(SECRET, cursor, purpose=purpose, scope=scope)
        sentences.add(str(refusal.value))
    assert len(sentences) == 1
