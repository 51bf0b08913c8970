"""Where installed plugins lie: one folder for each digest, whose files nobody changes any more. All calls block.

A plugin is first unpacked or copied beside the others, then named by what it is. What a crash leaves of the first step
is removed at the next start.
"""

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Generator, Set
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from bollard.host.errors import HostError, InvalidRequest, NotFound, StorageFull
from bollard.host.limits import PLUGIN_BYTES, PLUGIN_ENTRIES
from bollard.host.plugins.archive import check_collisions, find_root, parts_of, unpack, write_new
from bollard.host.plugins.description import Description, describe
from bollard.trust import make_folder, sync_folder
from bollard.wire.plugin_files import PluginFileError, digest_of_plugin, is_left_out, plugin_files

_INCOMING: Final = ".incoming"
_PIECE: Final = 1 << 16
_AGAIN: Final = "remove the plugin and install it again"


class StoredCode(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin that lies on the shelf: what pins it, where it is, and what it says of itself."""

    digest: str
    path: Path
    """A folder, or the one file that the plugin is."""
    described: Description


class CodeStore:
    """The folder `plugins` of the data directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self) -> None:
        """Make the folder, and remove what an earlier process left half done."""
        make_folder(self._folder / _INCOMING)
        for left in (self._folder / _INCOMING).iterdir():
            _remove(left)

    @contextlib.contextmanager
    def upload(self) -> Generator[BinaryIO]:
        """A file to put an archive in; gone at the end, however that comes."""
        place = self._folder / _INCOMING / f"{secrets.token_hex(8)}.zip"
        try:
            with os.fdopen(os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w+b") as file:
                yield file
        finally:
            place.unlink(missing_ok=True)

    def take_archive(self, file: BinaryIO) -> StoredCode:
        """Unpack an archive and put the plugin in it on the shelf. Raises `InvalidRequest`, `StorageFull`."""
        with self._aside() as aside:
            unpack(file, aside)
            return self._keep(find_root(aside))

    def take_folder(self, folder: Path) -> StoredCode:
        """Put a copy of a folder on the shelf. Raises `InvalidRequest`, `StorageFull`."""
        with self._aside() as aside:
            _copy(folder, aside)
            return self._keep(aside)

    def find(self, digest: str) -> StoredCode:
        """A plugin that lies here, with its files as they were when it came. Raises `NotFound`, `InvalidRequest`."""
        folder = self._folder / digest
        if not digest.isalnum() or not folder.is_dir():
            raise NotFound("the code of the plugin is not there any more", hint="install it again")
        path = _plugin_in(folder)
        try:
            whole = digest_of_plugin(path) == digest
        except PluginFileError as error:
            raise InvalidRequest(f"the code of the plugin cannot be read: {error}", hint=_AGAIN) from error
        if not whole:
            raise InvalidRequest("the code of the plugin was changed after it was installed", hint=_AGAIN)
        return StoredCode(digest=digest, path=path, described=describe(path))

    def sweep(self, wanted: Set[str]) -> None:
        """Remove the code that nothing refers to."""
        for folder in self._folder.iterdir():
            if folder.name != _INCOMING and folder.name not in wanted:
                _remove(folder)

    @contextlib.contextmanager
    def _aside(self) -> Generator[Path]:
        place = self._folder / _INCOMING / secrets.token_hex(8)
        place.mkdir(mode=0o700)
        try:
            yield place
        except OSError as error:
            raise StorageFull(f"the plugin cannot be kept: {error.strerror}", hint="free some space") from error
        finally:
            _remove(place)

    def _keep(self, root: Path) -> StoredCode:
        """Name what was taken in by its digest. What lies there already under that name is the same."""
        described = describe(root)
        try:
            digest = digest_of_plugin(root)
        except PluginFileError as error:
            raise InvalidRequest(f"the plugin cannot be read: {error}", hint="pack it again", field="body") from error
        place = self._folder / digest
        if not place.is_dir() or not self._is_whole(digest):
            _remove(place)
            folder = root if root.is_dir() else _alone(root)
            _freeze(folder)
            folder.chmod(0o700)  # a folder that nobody may write in cannot be moved
            folder.rename(place)
            place.chmod(0o555)
            sync_folder(self._folder)
        path = _plugin_in(place)
        return StoredCode(digest=digest, path=path, described=described)

    def _is_whole(self, digest: str) -> bool:
        try:
            return self.find(digest).digest == digest
        except HostError:
            return False


def _plugin_in(folder: Path) -> Path:
    """The folder, or the one file in it: a plugin without a manifest."""
    if (folder / "manifest.yaml").is_file():
        return folder
    return next((path for _, path in plugin_files(folder)), folder)


def _alone(file: Path) -> Path:
    folder = file.parent / secrets.token_hex(8)
    folder.mkdir()
    file.rename(folder / file.name)
    return folder


def _copy(folder: Path, into: Path) -> None:
    """Files only, counted while they are read. A link is not followed: what it points to is no part of the plugin."""
    names: list[tuple[tuple[str, ...], bool]] = []
    left = PLUGIN_BYTES
    for place, folders, files in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if not is_left_out(name))
        for name in sorted(each for each in files if not is_left_out(each)):
            source = Path(place, name)
            parts = parts_of(source.relative_to(folder).as_posix())
            names.append((parts, False))
            if len(names) > PLUGIN_ENTRIES:
                raise _too_large(f"it has more than {PLUGIN_ENTRIES} files")
            target = into.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            left -= _copy_file(source, target, left)
    check_collisions(names)


def _copy_file(source: Path, target: Path, most: int) -> int:
    size = 0
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise InvalidRequest(
            f"the plugin cannot be read: {source.name}: {error.strerror}", hint="links are not followed", field="plugin"
        ) from error
    with os.fdopen(descriptor, "rb") as given, os.fdopen(write_new(target), "wb") as out:
        if not stat.S_ISREG(os.fstat(given.fileno()).st_mode):
            raise InvalidRequest(f"{source.name} is not a file", hint="take it out of the plugin", field="plugin")
        while piece := given.read(_PIECE):
            size += len(piece)
            if size > most:
                raise _too_large(f"its files are larger than {PLUGIN_BYTES} bytes together")
            out.write(piece)
    return size


def _too_large(problem: str) -> InvalidRequest:
    return InvalidRequest(f"the plugin is not taken: {problem}", hint="leave out what it does not need", field="plugin")


def _freeze(folder: Path) -> None:
    """Flush every file and let nobody write it."""
    for place, _, files in os.walk(folder, topdown=False):
        for name in files:
            path = Path(place, name)
            path.chmod(0o444)
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_folder(Path(place))
        Path(place).chmod(0o555)


def _remove(path: Path) -> None:
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    for place, _, _ in os.walk(path):  # a frozen folder gives nothing away
        Path(place).chmod(0o700)
    shutil.rmtree(path)
