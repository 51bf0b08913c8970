"""The credit window against a naive model: count, bytes, cumulative and invalid credit."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bollard.wire.flow_control import Window

COUNT, BYTES = 4, 100


class WindowAgainstABook(RuleBasedStateMachine):
    """The book keeps every item for ever and computes everything from them."""

    def __init__(self) -> None:
        super().__init__()
        self.window = Window(limit_count=COUNT, limit_bytes=BYTES)
        self.items: list[tuple[int, int]] = []
        self.credited = 0

    def open_items(self) -> list[tuple[int, int]]:
        return [item for item in self.items if item[0] > self.credited]

    @rule(skip=st.integers(1, 3), size=st.integers(0, 60))
    def take(self, skip: int, size: int) -> None:
        number = (self.items[-1][0] if self.items else 0) + skip
        open_items = self.open_items()
        fits = len(open_items) < COUNT and sum(size for _, size in open_items) + size <= BYTES
        assert self.window.fits(size) == fits
        self.window.take(number, size)
        self.items.append((number, size))

    @rule(through=st.integers(0, 60))
    def credit(self, through: int) -> None:
        last = self.items[-1][0] if self.items else 0
        sensible = self.credited <= through <= last
        assert self.window.credit(through) == sensible
        if sensible:
            self.credited = through

    @rule()
    def credit_all(self) -> None:
        last = self.items[-1][0] if self.items else 0
        assert self.window.credit(last)
        self.credited = last

    @invariant()
    def the_books_agree(self) -> None:
        open_items = self.open_items()
        assert self.window.outstanding == len(open_items)
        assert self.window.outstanding_bytes == sum(size for _, size in open_items)
        assert self.window.last == (self.items[-1][0] if self.items else 0)


TestWindowAgainstABook = WindowAgainstABook.TestCase
TestWindowAgainstABook.settings = settings(deadline=None)


@pytest.mark.requirement("P11-44")
def test_the_window_ends_at_its_count_and_at_its_bytes() -> None:
    window = Window(limit_count=3, limit_bytes=10)
    for number in (1, 2, 3):
        assert window.fits(0)
        window.take(number, 0)
    assert not window.fits(0)
    assert window.credit(1)
    assert window.fits(10)
    assert not window.fits(11)
    window.take(4, 10)
    assert window.credit(3)
    assert window.fits(0)
    assert not window.fits(1)
