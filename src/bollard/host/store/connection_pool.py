"""A few connections that readers share. Bounded: a reader waits for one, and not for ever."""

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from bollard.host.errors import StorageUnavailable

__all__ = ["ConnectionPool"]


class _Closable(Protocol):
    def close(self) -> None: ...


_Connection = TypeVar("_Connection", bound=_Closable)


class ConnectionPool(Generic[_Connection]):
    """Connections are made when they are first needed and kept. One that raised is not used again."""

    def __init__(self, connect: Callable[[], _Connection], *, size: int, wait_s: float) -> None:
        self._connect = connect
        self._idle: list[_Connection] = []
        self._free = threading.BoundedSemaphore(size)
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._closed = False

    @contextmanager
    def use(self) -> Generator[_Connection]:
        if not self._free.acquire(timeout=self._wait_s):
            raise StorageUnavailable("every reading connection is busy", hint="try again in a moment")
        try:
            connection = self._take()
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            self._give_back(connection)
        finally:
            self._free.release()

    def open(self) -> None:
        with self._lock:
            self._closed = False

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def drop_idle(self) -> None:
        """One of them was found dead, and they had the same server: the next is a new one."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> _Connection:
        with self._lock:
            if self._closed:
                raise StorageUnavailable("the store is closed", hint="the host is shutting down")
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _give_back(self, connection: _Connection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()
