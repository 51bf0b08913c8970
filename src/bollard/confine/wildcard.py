"""Which paths a pattern means: `*` and `?` within a name, `**` over names. Pure; time grows with lengths only."""

from bollard.confine.errors import OverLimit, PathRefused
from bollard.confine.limits import DEPTH, PATTERN_CHARACTERS

__all__ = ["Wildcard"]


class Wildcard:
    """A pattern such as `src/**/*.py`. A pattern without a `/` is about names anywhere."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > PATTERN_CHARACTERS:
            raise OverLimit(f"the pattern is longer than {PATTERN_CHARACTERS} characters")
        if not pattern or pattern.startswith("/") or "\0" in pattern:
            raise PathRefused
        segments = pattern.split("/")
        if ".." in segments or len(segments) > DEPTH:
            raise PathRefused
        self._segments = ["**", pattern] if len(segments) == 1 and pattern != "**" else segments

    def matches(self, path: str) -> bool:
        """One pass over the path for each segment, however many `**` there are."""
        names = path.split("/")
        reached = [True] + [False] * len(names)
        """Which beginnings of the path the segments so far can mean."""
        for segment in self._segments:
            following = [False] * (len(names) + 1)
            for count, is_reached in enumerate(reached):
                if segment == "**":
                    following[count] = is_reached or (count > 0 and following[count - 1])
                elif is_reached and count < len(names) and _name_matches(names[count], segment):
                    following[count + 1] = True
            reached = following
        return reached[-1]


def _name_matches(name: str, segment: str) -> bool:
    """Two positions and one to come back to: never more than length times length."""
    at, of, star, mark = 0, 0, -1, 0
    while at < len(name):
        if of < len(segment) and segment[of] == "*":
            star, mark, of = of, at, of + 1
        elif of < len(segment) and segment[of] in ("?", name[at]):
            at, of = at + 1, of + 1
        elif star >= 0:
            mark += 1
            at, of = mark, star + 1
        else:
            return False
    return all(character == "*" for character in segment[of:])
