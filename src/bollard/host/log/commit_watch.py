"""Wakes readers of the log when a record that they follow is on disk. Without a follower it costs one lookup."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from bollard.host.log.entries import Entry


class CommitWatch:
    """The followers of each workspace. Not thread-safe."""

    def __init__(self) -> None:
        self._followers: dict[str, dict[asyncio.Event, frozenset[str]]] = {}

    @contextmanager
    def follow(self, workspace: str, types: frozenset[str]) -> Generator[asyncio.Event]:
        """An event that is set after each commit with a record of these types in the workspace."""
        woken = asyncio.Event()
        self._followers.setdefault(workspace, {})[woken] = types
        try:
            yield woken
        finally:
            followers = self._followers[workspace]
            del followers[woken]
            if not followers:
                del self._followers[workspace]

    def committed(self, entry: Entry) -> None:
        """Wake the followers of the records of an entry that is on disk. The check comes after the commit, so that a
        follower that has read the log before it is never left asleep."""
        if not self._followers:
            return
        for record in entry.records:
            for follower, types in self._followers.get(record.workspace, {}).items():
                if record.type in types:
                    follower.set()
