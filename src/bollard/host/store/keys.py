"""Keys of state and storage, and names in events: what every store can keep and find as it is. Pure."""

from bollard.host.limits import KEY_BYTES

__all__ = ["key_problem"]


def key_problem(key: str) -> str | None:
    """What is wrong with a key, if anything is: PostgreSQL's text has no U+0000, and its indices no long keys."""
    if "\0" in key:
        return "holds the character U+0000"
    if len(key.encode("utf-8", "replace")) > KEY_BYTES:
        return f"is longer than {KEY_BYTES} bytes in UTF-8"
    return None
