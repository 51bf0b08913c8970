"""Words as PostgreSQL's text search takes them: a vector for each message, an expression for each query. Pure."""

from collections.abc import Sequence
from typing import Final

from bollard.segments import is_prefix

__all__ = ["expression_of", "vector_of"]

VECTOR_POSITIONS: Final = 256
"""Places of one word that the server keeps; it numbers no word beyond 16383."""
VECTOR_LAST_POSITION: Final = 16_383


def expression_of(place: str, terms: Sequence[str]) -> str:
    """The place is in the index too, so that a common word costs what its conversation holds, not the store."""
    wanted = [_quoted(term) + (":*" if is_prefix(term) else "") for term in terms]
    return " & ".join([_quoted(_place_lexeme(place)), *wanted])


def _quoted(term: str) -> str:
    text = term.replace("\\", "\\\\").replace("'", "''").replace("\0", " ")
    return f"'{text}'"


def _place_lexeme(place: str) -> str:
    return f"place/{place}"  # no word has a slash, so nobody can ask for it


def vector_of(place: str, search: str) -> str:
    """Our own words as a text search vector: the server's parser would cut them its own way."""
    places: dict[str, list[int]] = {}
    for position, word in enumerate(search.split(), start=1):
        at = places.setdefault(word, [])
        if position <= VECTOR_LAST_POSITION and len(at) < VECTOR_POSITIONS:
            at.append(position)
    lexemes = [_quoted(_place_lexeme(place))]
    for word, at in places.items():
        lexemes.append(_quoted(word) + (f":{','.join(map(str, at))}" if at else ""))
    return " ".join(lexemes)
