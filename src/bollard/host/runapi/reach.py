"""Which artifacts a run may know of: those of its own conversation, and of itself. All others do not exist for it."""

from collections.abc import Callable

from bollard.host.clock import Clock
from bollard.host.runs.live import LiveRun
from bollard.host.store.boundary import Store
from bollard.host.store.rows import ArtifactRow

__all__ = ["ArtifactReach", "FindArtifact"]

FindArtifact = Callable[[LiveRun, str], ArtifactRow | None]
"""The artifact of this id, if the run may know of it. Blocks."""


class ArtifactReach:
    """Looks artifacts up for runs."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def find(self, run: LiveRun, artifact_id: str) -> ArtifactRow | None:
        row = self._store.artifact(run.facts.workspace, artifact_id)
        if row is None or (row.expires_ms is not None and row.expires_ms <= self._clock.now_ms()):
            return None
        if row.run_id == run.facts.run_id:
            return row
        if not run.facts.conversation or row.conversation != run.facts.conversation:
            return None
        return row if self._same_bot(run, row) else None

    def _same_bot(self, run: LiveRun, row: ArtifactRow) -> bool:
        """Two bots may have conversations of one name. What no run made was put into the conversation by the host."""
        if row.run_id is None:
            return True
        maker = self._store.run(row.run_id)
        return maker is not None and maker.bot == run.facts.bot
