"""Keys of state, of storage and of events: what every store can keep and find as it is. Pure."""

__all__ = ["key_problem"]


def key_problem(key: str) -> str | None:
    """What is wrong with a key, if anything is: PostgreSQL's text has no U+0000."""
    return "holds the character U+0000" if "\0" in key else None
