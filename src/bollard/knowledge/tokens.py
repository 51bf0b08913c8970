"""How much a text is for a model, without asking one: four Latin characters are about a token, and so is one Chinese
character. Pure. The parts of a text never count less than the whole, so sums of parts are safe bounds."""

from bollard.segments import cjk_characters

__all__ = ["QUARTERS", "quarters", "tokens"]

QUARTERS = 4
"""Of one token. Whole numbers of them are added without an error."""


def quarters(text: str) -> int:
    """What a text counts, in quarters of a token: a Latin letter one, any other letter two, a CJK character four."""
    if text.isascii():
        return len(text)
    cjk = cjk_characters(text)
    latin = len(text.encode("ascii", "ignore"))
    return 4 * cjk + latin + 2 * (len(text) - cjk - latin)


def tokens(text: str) -> int:
    """The same in tokens, rounded up."""
    return -(-quarters(text) // QUARTERS)
