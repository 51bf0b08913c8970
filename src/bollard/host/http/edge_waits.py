"""What is waited for, and until when. All waits of one kind are equally long, so they end in the order in which they
began: looking for those that are over costs nothing for the others. Pure; the caller brings monotonic time."""

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Waits"]

Who = TypeVar("Who", bound=Hashable)


class Waits(Generic[Who]):
    """Who is waited for, `seconds` each."""

    __slots__ = ("_until", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until: dict[Who, float] = {}

    def __len__(self) -> int:
        return len(self._until)

    def __contains__(self, who: Who) -> bool:
        return who in self._until

    def begin(self, who: Who, now: float) -> None:
        """From now on; who is waited for already goes on waiting for as long as before."""
        if who not in self._until:
            self._until[who] = now + self.seconds

    def end(self, who: Who) -> None:
        """It came, or is not waited for."""
        self._until.pop(who, None)

    def oldest(self) -> Who | None:
        """Who is waited for longest."""
        return next(iter(self._until), None)

    def over(self, now: float) -> list[Who]:
        """Those that were waited for long enough; they are not waited for any more."""
        found: list[Who] = []
        for who, until in self._until.items():
            if until > now:
                break
            found.append(who)
        for who in found:
            del self._until[who]
        return found
