"""Takes plugins in: an upload or a package becomes code on the shelf, held there until somebody has decided."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Set
from contextlib import asynccontextmanager
from typing import BinaryIO, Final

from bollard.host.errors import Overloaded, PayloadTooLarge, StorageFull
from bollard.host.limits import MIB, PLUGIN_ARCHIVE_BYTES, PLUGIN_UPLOADS, PLUGIN_UPLOADS_OF_WORKSPACE
from bollard.host.plugins.packages import folder_of_package
from bollard.host.plugins.shelf import Shelf, Shelved

__all__ = ["Taking"]

_AT_ONCE: Final = 1 * MIB
"""What is gathered before it is written: each write is a hop to a thread."""


class Taking:
    """One per host. Code that nothing refers to is swept from the shelf; what is held here is not."""

    def __init__(self, shelf: Shelf, wanted: Callable[[], Set[str]]) -> None:
        self._shelf = shelf
        self._wanted = wanted
        """The digests of the code that is in use, or can be gone back to."""
        self._held: Counter[str] = Counter()
        self._shelving = asyncio.Lock()
        self._uploads: Counter[str] = Counter()
        """Of each workspace."""

    @asynccontextmanager
    async def archive(self, pieces: AsyncIterable[bytes], workspace: str) -> AsyncGenerator[Shelved]:
        """The plugin of an uploaded zip. Raises `InvalidRequest`, `PayloadTooLarge`, `StorageFull`, `Overloaded`."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._one_more(workspace))
            file = await asyncio.to_thread(stack.enter_context, self._shelf.upload())
            await _receive(pieces, file)
            async with self._holding(lambda: self._shelf.take_archive(file)) as shelved:
                yield shelved

    @contextlib.contextmanager
    def _one_more(self, workspace: str) -> Generator[None]:
        """A workspace that uploads slowly does not take the places of the others."""
        if self._uploads.total() >= PLUGIN_UPLOADS or self._uploads[workspace] >= PLUGIN_UPLOADS_OF_WORKSPACE:
            limit = PLUGIN_UPLOADS_OF_WORKSPACE
            raise Overloaded("plugins are being uploaded already", hint="try again in a moment", limit=limit)
        self._uploads[workspace] += 1
        try:
            yield
        finally:
            self._uploads[workspace] -= 1
            self._uploads += Counter()  # forget those that have none

    @asynccontextmanager
    async def package(self, name: str) -> AsyncGenerator[tuple[Shelved, str]]:
        """The plugin of a package of the host's environment, and what the package is. Raises `NotFound` as well."""
        folder, said = await asyncio.to_thread(folder_of_package, name)
        async with self._holding(lambda: self._shelf.take_folder(folder)) as shelved:
            yield shelved, said

    @asynccontextmanager
    async def again(self, digest: str) -> AsyncGenerator[Shelved]:
        """Code that was taken before. Raises `NotFound`, and `InvalidRequest` where somebody changed it."""
        async with self._holding(lambda: self._shelf.find(digest)) as shelved:
            yield shelved

    async def sweep(self) -> None:
        """Remove the code that nothing refers to."""
        async with self._shelving:
            wanted = self._wanted() | set(self._held)
            await asyncio.to_thread(self._shelf.sweep, wanted)

    @asynccontextmanager
    async def _holding(self, take: Callable[[], Shelved]) -> AsyncGenerator[Shelved]:
        async with self._shelving:  # nothing is swept between its coming and its being held
            shelved = await asyncio.to_thread(take)
            self._held[shelved.digest] += 1
        try:
            yield shelved
        finally:
            self._held[shelved.digest] -= 1
            self._held += Counter()  # forget those that nobody holds
            if shelved.digest not in self._wanted():
                await self.sweep()


async def _receive(pieces: AsyncIterable[bytes], file: BinaryIO) -> None:
    size, gathered = 0, bytearray()
    async for piece in pieces:
        size += len(piece)
        if size > PLUGIN_ARCHIVE_BYTES:
            raise PayloadTooLarge(
                f"the archive is larger than {PLUGIN_ARCHIVE_BYTES} bytes", hint="leave out large files", field="body"
            )
        gathered += piece
        if len(gathered) >= _AT_ONCE:
            await _write(file, bytes(gathered))
            gathered.clear()
    await _write(file, bytes(gathered))


async def _write(file: BinaryIO, data: bytes) -> None:
    try:
        await asyncio.to_thread(file.write, data)
        await asyncio.to_thread(file.flush)
    except OSError as error:
        raise StorageFull(f"the archive cannot be kept: {error.strerror}", hint="free some space") from error
