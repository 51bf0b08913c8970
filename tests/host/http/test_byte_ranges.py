"""`Range`: one range of bytes, or the whole."""

import pytest
from tests.tables import for_each

from bollard.host.http.downloads import span_of
from bollard.host.http.errors import RangeNotSatisfiable


@for_each(
    ("header", "span"),
    [
        (None, None),
        ("bytes=0-9", range(10)),
        ("bytes=0-", range(100)),
        ("bytes=90-200", range(90, 100)),
        ("bytes=99-99", range(99, 100)),
        ("bytes=-10", range(90, 100)),
        ("bytes=-1000", range(100)),
        ("bytes=-", None),
        ("bytes=5-4", None),
        ("bytes=0-1,5-6", None),
        ("lines=0-1", None),
        ("bytes=a-b", None),
        ("bytes=0-9999999999999999", None),
    ],
)
def test_a_range_selects_some_or_all_of_the_bytes(header: str | None, span: range | None) -> None:
    assert span_of(header, 100) == span


@pytest.mark.parametrize(("header", "size"), [("bytes=100-", 100), ("bytes=0-", 0), ("bytes=-0", 100), ("bytes=-5", 0)])
def test_a_range_without_bytes_is_refused(header: str, size: int) -> None:
    with pytest.raises(RangeNotSatisfiable):
        span_of(header, size)
