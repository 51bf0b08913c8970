"""What the journal did, for metrics and for deciding whether anything new may be taken."""

import msgspec

__all__ = ["Numbers"]


class Numbers(msgspec.Struct, array_like=True):
    commits: int = 0
    records: int = 0
    entries: int = 0
    retries: int = 0
    failures: int = 0
    last_commit_s: float = 0.0
    full: bool = False
    """Whether the disk was found full: what runs may end, nothing new is taken until there is space again."""
