"""The numbering of one run's results as the host sees it (§5): at most once, holes are named, nobody waits. Pure."""

from typing import Literal

__all__ = ["ResultSequence", "Verdict"]

Verdict = Literal["next", "gap", "duplicate", "late"]


class ResultSequence:
    """Judges each arriving number. What arrives below the newest number is dropped: the host never re-orders."""

    __slots__ = ("_newest", "ended", "last")

    def __init__(self) -> None:
        self.last = 0
        """The newest accepted number."""
        self._newest = 0  # the newest late one; what is told once is not told again
        self.ended = False
        """Whether a terminal result was accepted; anything after it is late."""

    def judge(self, number: int, *, terminal: bool) -> Verdict:
        """`gap` means accepted after a hole that reaches from `last + 1` (before this call) to `number - 1`."""
        if number <= self.last or number <= self._newest:
            return "duplicate"
        if self.ended:
            self._newest = number
            return "late"
        verdict: Verdict = "next" if number == self.last + 1 else "gap"
        self.last = number
        self.ended = terminal
        return verdict
