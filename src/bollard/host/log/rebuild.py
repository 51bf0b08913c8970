"""Makes every projection anew from the log. The result equals what the journal made as it wrote.

Leases are not part of it: they are true only while their owner lives, and nobody may write during a rebuild. What has
expired by now does not come back.
"""

from collections.abc import Callable

from bollard.host.log.projection import Projector
from bollard.host.store.boundary import Store

__all__ = ["rebuild"]

_PAGE = 2000
"""Records that are read and projected at once."""


def rebuild(store: Store, progress: Callable[[int], None] = lambda _: None) -> int:
    """Replay the whole log in one commit; returns the number of records. Nothing else may write meanwhile."""
    projector = Projector()
    count = after = 0
    now_ms = store.now_ms()
    with store.write() as transaction:
        transaction.clear_projections()
        while rows := store.records(after, _PAGE):
            for row in rows:
                transaction.apply(projector.feed(row))
                if row.type == "run.ended" and row.run_id is not None:
                    projector.forget(row.run_id)
            after = rows[-1].id
            count += len(rows)
            progress(count)
        while transaction.drop_expired(now_ms, _PAGE) == _PAGE:
            pass
    return count
