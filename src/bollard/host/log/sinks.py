"""Where else the journal writes: contents before the records that name them, and the space kept for a full disk."""

from typing import Protocol

__all__ = ["BlobSink", "NoReserve", "Reserve"]


class BlobSink(Protocol):
    """Where contents go before the record that names them."""

    def put(self, content: bytes) -> str:
        """On disk when it returns its digest; the same content again changes nothing."""
        ...


class Reserve(Protocol):
    """Space that is kept for the day the disk is full."""

    @property
    def held(self) -> bool: ...

    def hold(self) -> bool: ...

    def release(self) -> None: ...


class NoReserve:
    """Where there is no disk to fill."""

    held = False

    def hold(self) -> bool:
        return True

    def release(self) -> None:
        """Nothing to give."""
