"""A store that is only read, beside a host that may run on it: opened only where that changes nothing."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bollard.cli.errors import UsageProblem

if TYPE_CHECKING:
    from bollard.host.settings import Settings
    from bollard.host.store.boundary import Store

__all__ = ["opened_store"]


@contextmanager
def opened_store(settings: "Settings") -> "Generator[Store]":
    """To open a store of an earlier version would bring it to this one, under the host that uses it."""
    from bollard.host.backup.opening import open_snapshot
    from bollard.host.clock import SystemClock
    from bollard.host.store.migrations import REVISIONS
    from bollard.host.store.opening import choose_store

    snapshot = open_snapshot(settings.database, settings.data)
    try:
        revision = snapshot.revision
    finally:
        snapshot.close()
    if revision != REVISIONS.known[-1]:
        needed = REVISIONS.known[-1]
        raise UsageProblem("error.audit_schema", "hint.audit_schema", current=revision or "-", needed=needed)
    store = choose_store(settings.database, settings.data, SystemClock())
    store.open()
    try:
        yield store
    finally:
        store.close()
