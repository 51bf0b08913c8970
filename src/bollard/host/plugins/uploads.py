"""Takes plugins in: an upload or a package becomes code on the shelf, held there until somebody has decided."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Set
from contextlib import asynccontextmanager
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from typing import BinaryIO, Final

from bollard.host.errors import HostError, InvalidRequest, NotFound, Overloaded, PayloadTooLarge, StorageFull
from bollard.host.limits import MIB, PLUGIN_ARCHIVE_BYTES, PLUGIN_UPLOADS, PLUGIN_UPLOADS_OF_WORKSPACE
from bollard.host.plugins.archive import ENTRY_POINTS, one_module
from bollard.host.plugins.code_store import CodeStore, StoredCode
from bollard.host.plugins.description import describe
from bollard.host.plugins.placement import Origin
from bollard.host.settings import Settings
from bollard.host.workers.boundary import PluginSource
from bollard.wire.manifest_text import MANIFEST_NAME

# A plugin that came as a Python package into the host's own environment: where its folder is. Imports none of it.


def folder_of_package(name: str) -> tuple[Path, str]:
    """The plugin's folder, and name and version of the distribution. Raises `NotFound`, `InvalidRequest`."""
    try:
        distribution = metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError) as error:
        raise NotFound(
            "there is no such package in the host's environment",
            hint="install it there first, with pip or uv; or send its wheel",
        ) from error
    points = {each.name: each.value for each in distribution.entry_points.select(group=ENTRY_POINTS)}
    module = one_module(points)
    top, *rest = module.split(".")
    for place in _places_of(top, distribution):
        folder = place.joinpath(*rest)
        if (folder / MANIFEST_NAME).is_file():
            return folder, f"{distribution.name}=={distribution.version}"
    raise InvalidRequest(
        f"the module {module} has no {MANIFEST_NAME}", hint="the package must ship it beside its code", field="package"
    )


def _places_of(top: str, distribution: metadata.Distribution) -> list[Path]:
    """Where the package lies. Nothing is imported: finding a module that is not inside another runs no code of it."""
    places = [Path(str(distribution.locate_file(top)))]
    spec = PathFinder.find_spec(top)
    if spec is not None and spec.submodule_search_locations is not None:
        places += [Path(place) for place in spec.submodule_search_locations]
    return places


_AT_ONCE: Final = 1 * MIB
"""What is gathered before it is written: each write is a hop to a thread."""


class PluginUploads:
    """One per host. Code that nothing refers to is swept from the shelf; what is held here is not."""

    def __init__(self, shelf: CodeStore, wanted: Callable[[], Set[str]]) -> None:
        self._shelf = shelf
        self._wanted = wanted
        """The digests of the code that is in use, or can be gone back to."""
        self._held: Counter[str] = Counter()
        self._shelving = asyncio.Lock()
        self._uploads: Counter[str] = Counter()
        """Of each workspace."""

    @asynccontextmanager
    async def archive(self, pieces: AsyncIterable[bytes], workspace: str) -> AsyncGenerator[StoredCode]:
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
    async def package(self, name: str) -> AsyncGenerator[tuple[StoredCode, str]]:
        """The plugin of a package of the host's environment, and what the package is. Raises `NotFound` as well."""
        folder, said = await asyncio.to_thread(folder_of_package, name)
        async with self._holding(lambda: self._shelf.take_folder(folder)) as shelved:
            yield shelved, said

    @asynccontextmanager
    async def again(self, digest: str) -> AsyncGenerator[StoredCode]:
        """Code that was taken before. Raises `NotFound`, and `InvalidRequest` where somebody changed it."""
        async with self._holding(lambda: self._shelf.find(digest)) as shelved:
            yield shelved

    async def sweep(self) -> None:
        """Remove the code that nothing refers to."""
        async with self._shelving:
            wanted = self._wanted() | set(self._held)
            await asyncio.to_thread(self._shelf.sweep, wanted)

    @asynccontextmanager
    async def _holding(self, take: Callable[[], StoredCode]) -> AsyncGenerator[StoredCode]:
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


# The plugins that the host's settings bring into every workspace: those that come with it, and others.


_WITH_THE_HOST: Final = Path(__file__).resolve().parents[2] / "plugins"
_IN_THE_REPOSITORY: Final = Path(__file__).resolve().parents[4] / "plugins"


def shared_sources(settings: Settings) -> list[tuple[PluginSource, Origin]]:
    """In the order in which they may take a name."""
    builtin: list[Path] = []
    if settings.builtin_plugins:
        folder = _WITH_THE_HOST if _WITH_THE_HOST.is_dir() else _IN_THE_REPOSITORY
        if folder.is_dir():
            builtin = sorted(path for path in folder.iterdir() if (path / "manifest.yaml").is_file())
    found: list[tuple[PluginSource, Origin]] = [(_source(path, settings), "builtin") for path in builtin]
    return [*found, *((_source(path, settings), "settings") for path in settings.plugins)]


def _source(path: Path, settings: Settings) -> PluginSource:
    return PluginSource(name=path.stem.lower(), path=path, workers=settings.workers)


def said_id(source: PluginSource) -> str | None:
    """What a plugin's files say that it is called; nothing where they cannot say it, its worker will."""
    try:
        return None if source.command else describe(source.path).plugin_id
    except (HostError, OSError):
        return None
