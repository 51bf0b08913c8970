"""The search for many literal texts at once (Aho-Corasick), in time linear in the text. Pure.

There is no backtracking, so no secret and no text can make it slow.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

Span = tuple[int, int]
"""Start and exclusive end."""
_STEP: Final = 0x110000
"""Larger than any character: a state of the automaton and a character are packed into one number."""
_SEARCH_CHARACTERS: Final = 5000
"""Looking for one needle in a text of this length takes twice as long as in a very short one. For the automaton, each
character takes about as long as one needle in a very short text."""
_FEW: Final = 256


class Matcher:
    """An automaton for a set of needles."""

    def __init__(self, needles: Iterable[str]) -> None:
        self.needles: Final = tuple(sorted({needle for needle in needles if needle}))
        self.longest_bytes: Final = max((len(each.encode("utf-8", "replace")) for each in self.needles), default=0)
        self._moves: dict[int, int] = {}
        self._depths = [0]
        self._ends = [0]
        """For each state the length of the longest needle that ends there; 0 for none."""
        self._back = [0]
        """For each state the failure link: the longest suffix that is a prefix of another needle."""
        self._goes_on = [False]
        for needle in self.needles:
            self._add(needle)
        self._link()

    def _add(self, needle: str) -> None:
        place = 0
        for character in needle:
            move = place * _STEP + ord(character)
            there = self._moves.get(move)
            if there is None:
                there = self._moves[move] = len(self._depths)
                self._depths.append(self._depths[place] + 1)
                self._ends.append(0)
                self._back.append(0)
                self._goes_on.append(False)
                self._goes_on[place] = True
            place = there
        self._ends[place] = len(needle)

    def _link(self) -> None:
        """Compute the failure links breadth first, so that shorter prefixes are complete."""
        onward: dict[int, list[tuple[int, int]]] = {}
        for move, there in self._moves.items():
            place, character = divmod(move, _STEP)
            onward.setdefault(place, []).append((character, there))
        waiting = deque([0])
        while waiting:
            place = waiting.popleft()
            for character, there in onward.get(place, ()):
                if place:
                    self._back[there] = back = self._step(self._back[place], character)
                    self._ends[there] = self._ends[there] or self._ends[back]
                waiting.append(there)

    def _step(self, place: int, character: int) -> int:
        while (there := self._moves.get(place * _STEP + character)) is None and place:
            place = self._back[place]
        return there or 0

    def find(self, text: str) -> list[Span]:
        """The spans of needles; overlapping spans are merged."""
        search = len(self.needles) * (1 + len(text) / _SEARCH_CHARACTERS) <= len(text)
        quick = _search(text, self.needles) if search else None
        return self.scan(text)[0] if quick is None else quick

    def scan(self, text: str, start: int = 0, place: int = 0, known: Iterable[Span] = ()) -> tuple[list[Span], int]:
        """Continue a search from `start` with the automaton in state `place` and `known` spans; also returns the final
        state."""
        moves, back, ends = self._moves, self._back, self._ends
        found = [*known]
        for index in range(start, len(text)):
            character = ord(text[index])
            while (there := moves.get(place * _STEP + character)) is None and place:
                place = back[place]
            place = there or 0
            if ends[place]:
                _cover(found, index + 1 - ends[place], index + 1)
        return found, place

    def pending(self, place: int) -> int:
        """The number of trailing characters that may start a needle."""
        while place and not self._goes_on[place]:
            place = self._back[place]
        return self._depths[place]


def _search(text: str, needles: Iterable[str]) -> list[Span] | None:
    """Search for the needles one by one; `None` if there are many matches."""
    found: list[Span] = []
    for needle in needles:
        at = text.find(needle)
        while at >= 0:
            found.append((at, at + len(needle)))
            if len(found) > _FEW:
                return None
            at = text.find(needle, at + 1)
    return merged(found)


def merged(spans: Iterable[Span]) -> list[Span]:
    """Sort spans and merge overlapping ones."""
    found: list[Span] = []
    for first, behind in sorted(spans):
        if found and found[-1][1] > first:
            found[-1] = (found[-1][0], max(found[-1][1], behind))
        else:
            found.append((first, behind))
    return found


def _cover(found: list[Span], first: int, behind: int) -> None:
    while found and found[-1][1] > first:
        first = min(first, found.pop()[0])
    found.append((first, behind))
