"""Receives plugins from uploads and Python packages into the code store, and finds the plugins that the settings name.

Received code is reserved until the caller has decided about it; then it is swept unless something refers to it.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Set
from contextlib import asynccontextmanager
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from typing import BinaryIO, Final

from bollard.host.errors import HostError, InvalidRequest, NotFound, Overloaded, PayloadTooLarge, StorageFull, caused_by
from bollard.host.limits import MIB, PLUGIN_ARCHIVE_BYTES, PLUGIN_UPLOADS, PLUGIN_UPLOADS_OF_WORKSPACE
from bollard.host.plugins.archive import ENTRY_POINTS, plugin_module
from bollard.host.plugins.code_store import CodeStore, StoredCode
from bollard.host.plugins.description import Description, describe
from bollard.host.plugins.placement import Origin
from bollard.host.settings import Settings
from bollard.host.workers.boundary import PluginSource
from bollard.manifest.text import MANIFEST_NAME


def folder_of_package(name: str) -> tuple[Path, str]:
    """The plugin's folder in a package of the host's environment, and the distribution as `name==version`. Imports
    nothing of it. Raises `NotFound`, `InvalidRequest`."""
    try:
        distribution = metadata.distribution(name)
    except (metadata.PackageNotFoundError, ValueError) as error:
        raise NotFound(
            "there is no such package in the host's environment",
            reason="package",
            hint="install it there with pip or uv, or upload its wheel",
        ) from error
    points = {each.name: each.value for each in distribution.entry_points.select(group=ENTRY_POINTS)}
    module = plugin_module(points)
    top, *rest = module.split(".")
    for parent in _candidate_folders(top, distribution):
        folder = parent.joinpath(*rest)
        if (folder / MANIFEST_NAME).is_file():
            return folder, f"{distribution.name}=={distribution.version}"
    raise InvalidRequest(
        f"the module {module} has no {MANIFEST_NAME}",
        reason="package_manifest",
        hint=f"ship {MANIFEST_NAME} in the package, beside its code",
        field="package",
        module=module,
    )


def _candidate_folders(top: str, distribution: metadata.Distribution) -> list[Path]:
    """Possible folders of the package. Finding the spec of a top-level module runs none of its code."""
    folders = [Path(str(distribution.locate_file(top)))]
    spec = PathFinder.find_spec(top)
    if spec is not None and spec.submodule_search_locations is not None:
        folders += [Path(folder) for folder in spec.submodule_search_locations]
    return folders


_WRITE_BYTES: Final = 1 * MIB
"""Bytes gathered before a write; each write runs in a thread."""


class PluginUploads:
    """Adds code to the code store and reserves it against sweeping. One per host."""

    def __init__(self, code_store: CodeStore, wanted: Callable[[], Set[str]]) -> None:
        self._code_store = code_store
        self._wanted = wanted
        """The digests of the code that is in use or that a rollback can return to."""
        self._reserved: Counter[str] = Counter()
        self._lock = asyncio.Lock()
        self._uploads: Counter[str] = Counter()
        """Active uploads by workspace."""

    @asynccontextmanager
    async def archive(self, pieces: AsyncIterable[bytes], workspace: str) -> AsyncGenerator[StoredCode]:
        """The plugin of an uploaded zip. Raises `InvalidRequest`, `PayloadTooLarge`, `StorageFull`, `Overloaded`."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._count_upload(workspace))
            file = await asyncio.to_thread(stack.enter_context, self._code_store.upload())
            await _receive(pieces, file)
            async with self._reserve(lambda: self._code_store.add_archive(file)) as code:
                yield code

    @contextlib.contextmanager
    def _count_upload(self, workspace: str) -> Generator[None]:
        """Limit uploads per host, and per workspace so that one slow workspace does not block the others."""
        if self._uploads.total() >= PLUGIN_UPLOADS or self._uploads[workspace] >= PLUGIN_UPLOADS_OF_WORKSPACE:
            raise Overloaded(
                "too many plugin uploads are in progress",
                reason="plugin_uploads",
                hint="try again in a moment",
                limit=PLUGIN_UPLOADS_OF_WORKSPACE,
            )
        self._uploads[workspace] += 1
        try:
            yield
        finally:
            self._uploads[workspace] -= 1
            self._uploads += Counter()  # drops zero counts

    @asynccontextmanager
    async def package(self, name: str) -> AsyncGenerator[tuple[StoredCode, str]]:
        """The plugin of a package of the host's environment, and its `name==version`. Raises `NotFound` as well."""
        folder, distribution = await asyncio.to_thread(folder_of_package, name)
        async with self._reserve(lambda: self._code_store.add_folder(folder)) as code:
            yield code, distribution

    @asynccontextmanager
    async def stored(self, digest: str) -> AsyncGenerator[StoredCode]:
        """Code that is stored already. Raises `NotFound`, and `InvalidRequest` if its files changed."""
        async with self._reserve(lambda: self._code_store.find(digest)) as code:
            yield code

    async def sweep(self) -> None:
        """Remove the code that nothing refers to."""
        async with self._lock:
            wanted = self._wanted() | set(self._reserved)
            await asyncio.to_thread(self._code_store.sweep, wanted)

    @asynccontextmanager
    async def _reserve(self, store: Callable[[], StoredCode]) -> AsyncGenerator[StoredCode]:
        async with self._lock:  # no sweep between storing and reserving
            code = await asyncio.to_thread(store)
            self._reserved[code.digest] += 1
        try:
            yield code
        finally:
            self._reserved[code.digest] -= 1
            self._reserved += Counter()  # drops zero counts
            if code.digest not in self._wanted():
                await self.sweep()


async def _receive(pieces: AsyncIterable[bytes], file: BinaryIO) -> None:
    size, gathered = 0, bytearray()
    async for piece in pieces:
        size += len(piece)
        if size > PLUGIN_ARCHIVE_BYTES:
            raise PayloadTooLarge(
                f"the archive is larger than {PLUGIN_ARCHIVE_BYTES} bytes",
                reason="plugin_archive",
                hint="leave out large files",
                field="body",
                limit=PLUGIN_ARCHIVE_BYTES,
            )
        gathered += piece
        if len(gathered) >= _WRITE_BYTES:
            await _write(file, bytes(gathered))
            gathered.clear()
    await _write(file, bytes(gathered))


async def _write(file: BinaryIO, data: bytes) -> None:
    try:
        await asyncio.to_thread(file.write, data)
        await asyncio.to_thread(file.flush)
    except OSError as error:
        raise StorageFull(
            f"the archive cannot be stored: {error.strerror}",
            reason="plugin_archive",
            hint="free disk space",
            **caused_by(error),
        ) from error


# --- shared plugins ---

_PACKAGED: Final = Path(__file__).resolve().parents[2]
_IN_REPOSITORY: Final = Path(__file__).resolve().parents[4]


def bundled_root() -> Path:
    """The folder with `plugins`, `examples` and `catalogue`: the package, or the repository."""
    return _PACKAGED if (_PACKAGED / "plugins").is_dir() else _IN_REPOSITORY


def shared_sources(settings: Settings) -> list[tuple[PluginSource, Origin]]:
    """The built-in plugins and those of the settings. The first one of a name keeps it."""
    builtin: list[Path] = []
    if settings.builtin_plugins:
        folder = bundled_root() / "plugins"
        if folder.is_dir():
            builtin = sorted(path for path in folder.iterdir() if (path / "manifest.yaml").is_file())
    sources: list[tuple[PluginSource, Origin]] = [(_source(path, settings), "builtin") for path in builtin]
    return [*sources, *((_source(path, settings), "settings") for path in settings.plugins)]


def _source(path: Path, settings: Settings) -> PluginSource:
    return PluginSource(name=path.stem.lower(), path=path, workers=settings.workers)


def declared_plugin(source: PluginSource) -> Description | None:
    """The description in the files; `None` if they cannot be read (the worker declares its id then)."""
    try:
        return None if source.command else describe(source.path)
    except (HostError, OSError):
        return None
