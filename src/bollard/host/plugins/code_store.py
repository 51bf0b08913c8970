"""Stores the code of plugins on disk: one read-only folder for each digest. All calls block.

A plugin is unpacked or copied into `.incoming`, then renamed to its digest. `open` removes what a crash left in
`.incoming`.
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

from bollard.host.errors import HostError, InvalidRequest, NotFound, StorageFull, caused_by
from bollard.host.limits import PLUGIN_BYTES, PLUGIN_ENTRIES
from bollard.host.plugins.archive import check_collisions, find_root, split_name, unpack, write_new
from bollard.host.plugins.description import Description, describe
from bollard.trust import make_folder, sync_folder
from bollard.wire.plugin_files import PluginFileError, digest_of_plugin, is_left_out, plugin_files

_INCOMING: Final = ".incoming"
_PIECE: Final = 1 << 16
_LEAVE_OUT: Final = "leave out files that the plugin does not need"
_REINSTALL: Final = "remove the plugin and install it again"


class StoredCode(msgspec.Struct, frozen=True, kw_only=True):
    """The stored code of one plugin: its digest, its path, and the description read from it."""

    digest: str
    path: Path
    """A folder, or the file of a single-file plugin."""
    described: Description


class CodeStore:
    """The folder `plugins` of the data directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self) -> None:
        """Create the folder, and remove unfinished uploads of an earlier process."""
        make_folder(self._folder / _INCOMING)
        for path in (self._folder / _INCOMING).iterdir():
            _remove(path)

    @contextlib.contextmanager
    def upload(self) -> Generator[BinaryIO]:
        """A temporary file for an archive, removed at the end."""
        path = self._folder / _INCOMING / f"{secrets.token_hex(8)}.zip"
        try:
            with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w+b") as file:
                yield file
        finally:
            path.unlink(missing_ok=True)

    def add_archive(self, file: BinaryIO) -> StoredCode:
        """Unpack an archive and store its plugin. Raises `InvalidRequest`, `StorageFull`."""
        with self._incoming() as folder:
            unpack(file, folder)
            return self._store(find_root(folder))

    def add_folder(self, source: Path) -> StoredCode:
        """Store a copy of a folder. Raises `InvalidRequest`, `StorageFull`."""
        with self._incoming() as folder:
            _copy(source, folder)
            return self._store(folder)

    def find(self, digest: str) -> StoredCode:
        """The stored plugin with this digest, after checking its files. Raises `NotFound`, `InvalidRequest`."""
        folder = self._folder / digest
        if not digest.isalnum() or not folder.is_dir():
            raise NotFound(
                "the code of the plugin is missing",
                reason="plugin_code",
                hint="install the plugin again",
                digest=digest,
            )
        path = _plugin_in(folder)
        try:
            is_intact = digest_of_plugin(path) == digest
        except PluginFileError as error:
            raise InvalidRequest(
                f"the code of the plugin cannot be read: {error}",
                reason="plugin_code_unreadable",
                hint=_REINSTALL,
                **caused_by(error),
            ) from error
        if not is_intact:
            raise InvalidRequest(
                "the code of the plugin was changed after it was installed",
                reason="plugin_code_changed",
                hint=_REINSTALL,
                digest=digest,
            )
        return StoredCode(digest=digest, path=path, described=describe(path))

    def sweep(self, wanted: Set[str]) -> None:
        """Remove the code that nothing refers to."""
        for folder in self._folder.iterdir():
            if folder.name != _INCOMING and folder.name not in wanted:
                _remove(folder)

    @contextlib.contextmanager
    def _incoming(self) -> Generator[Path]:
        folder = self._folder / _INCOMING / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        try:
            yield folder
        except OSError as error:
            raise StorageFull(
                f"the plugin cannot be stored: {error.strerror}",
                reason="plugin_store",
                hint="free disk space",
                **caused_by(error),
            ) from error
        finally:
            _remove(folder)

    def _store(self, root: Path) -> StoredCode:
        """Rename the plugin to its digest, unless an intact copy is stored already."""
        described = describe(root)
        try:
            digest = digest_of_plugin(root)
        except PluginFileError as error:
            raise InvalidRequest(
                f"the plugin cannot be read: {error}",
                reason="plugin_unreadable",
                hint="pack it again",
                field="body",
                **caused_by(error),
            ) from error
        target = self._folder / digest
        if not target.is_dir() or not self._is_intact(digest):
            _remove(target)
            folder = root if root.is_dir() else _move_into_folder(root)
            _freeze(folder)
            if described.access.command and "/" in (program := described.access.command[0]):
                _make_executable(folder / program)
            folder.chmod(0o700)  # a read-only folder cannot be renamed
            folder.rename(target)
            target.chmod(0o555)
            sync_folder(self._folder)
        return StoredCode(digest=digest, path=_plugin_in(target), described=described)

    def _is_intact(self, digest: str) -> bool:
        try:
            return self.find(digest).digest == digest
        except HostError:
            return False


def _plugin_in(folder: Path) -> Path:
    """The folder, or its only file for a plugin without a manifest."""
    if (folder / "manifest.yaml").is_file():
        return folder
    return next((path for _, path in plugin_files(folder)), folder)


def _move_into_folder(file: Path) -> Path:
    folder = file.parent / secrets.token_hex(8)
    folder.mkdir()
    file.rename(folder / file.name)
    return folder


def _copy(folder: Path, into: Path) -> None:
    """Copy the files of a folder within the limits. Links are not followed."""
    names: list[tuple[tuple[str, ...], bool]] = []
    left = PLUGIN_BYTES
    for parent, folders, files in os.walk(folder, followlinks=False):
        folders[:] = sorted(name for name in folders if not is_left_out(name))
        for name in sorted(each for each in files if not is_left_out(each)):
            source = Path(parent, name)
            parts = split_name(source.relative_to(folder).as_posix())
            names.append((parts, False))
            if len(names) > PLUGIN_ENTRIES:
                raise InvalidRequest(
                    f"the plugin has more than {PLUGIN_ENTRIES} files",
                    reason="plugin_files",
                    hint=_LEAVE_OUT,
                    field="plugin",
                    limit=PLUGIN_ENTRIES,
                )
            target = into.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            left -= _copy_file(source, target, left)
    check_collisions(names)


def _copy_file(source: Path, target: Path, limit: int) -> int:
    size = 0
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise InvalidRequest(
            f"{source.name} of the plugin cannot be read: {error.strerror}",
            reason="plugin_file_unreadable",
            hint="links are not followed",
            field="plugin",
            file=source.name,
            **caused_by(error),
        ) from error
    with os.fdopen(descriptor, "rb") as original, os.fdopen(write_new(target), "wb") as out:
        if not stat.S_ISREG(os.fstat(original.fileno()).st_mode):
            raise InvalidRequest(
                f"{source.name} is not a file",
                reason="plugin_file_kind",
                hint="remove it from the plugin",
                field="plugin",
                file=source.name,
            )
        while piece := original.read(_PIECE):
            size += len(piece)
            if size > limit:
                raise InvalidRequest(
                    f"the files of the plugin are larger than {PLUGIN_BYTES} bytes in total",
                    reason="plugin_size",
                    hint=_LEAVE_OUT,
                    field="plugin",
                    limit=PLUGIN_BYTES,
                )
            out.write(piece)
    return size


def _freeze(folder: Path) -> None:
    """Flush every file and make the whole tree read-only."""
    for parent, _, files in os.walk(folder, topdown=False):
        for name in files:
            path = Path(parent, name)
            path.chmod(0o444)
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_folder(Path(parent))
        Path(parent).chmod(0o555)


def _make_executable(program: Path) -> None:
    """Let the worker's program be executed: an archive carries no modes."""
    if program.is_file() and not program.is_symlink():
        program.chmod(0o555)


def _remove(path: Path) -> None:
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    for parent, _, _ in os.walk(path):  # entries of a read-only folder cannot be deleted
        Path(parent).chmod(0o700)
    shutil.rmtree(path)
