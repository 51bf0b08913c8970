"""Which desk a journal writes at: a process of its own, or a thread of this one."""

from collections.abc import Callable

from bollard.host.clock import Clock
from bollard.host.log.writer import Writer
from bollard.host.log.writer_process import WriterProcess
from bollard.host.log.writer_thread import WriterThread
from bollard.host.settings import Settings
from bollard.host.store.blobs import BlobStore
from bollard.host.store.boundary import Store
from bollard.host.store.reserve import ReserveFile
from bollard.trust import HeadSigner

__all__ = ["choose_desk"]


def choose_desk(
    settings: Settings,
    *,
    store: Store,
    blobs: BlobStore,
    clock: Clock,
    incarnation: str,
    key: HeadSigner,
    lost: Callable[[], None],
) -> WriterThread | WriterProcess:
    """As the settings say. `lost` is told when a process is gone that nobody stopped."""
    if settings.journal == "process":
        return WriterProcess(
            database=settings.database,
            data=settings.data,
            incarnation=incarnation,
            key=key,
            lost=lost,
            broken_log=settings.broken_log,
        )
    writer = Writer(
        store,
        blobs,
        clock,
        incarnation=incarnation,
        key=key,
        reserve=ReserveFile(settings.data / "reserve"),
        broken_log=settings.broken_log,
    )
    return WriterThread(writer)
