"""What the rows of one answer bring along, collected while they are read beside the loop."""

from typing import Protocol

__all__ = ["Brought"]


class _Row(Protocol):
    @property
    def flow(self) -> int: ...


class _Keyed(_Row, Protocol):
    @property
    def key(self) -> str: ...


class Brought:
    """Bits of `Flow`. Handed to the run before it gets the answer."""

    def __init__(self) -> None:
        self.bits = 0

    def by(self, row: _Row) -> None:
        self.bits |= row.flow

    def key(self, row: _Keyed, prefix: str = "") -> str:
        """The key of a row; of one that is listed, so that it counts."""
        if row.key.startswith(prefix):
            self.by(row)
        return row.key
