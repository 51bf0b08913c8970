"""The host's secrets as files: 32 bytes in hex, created on first use, readable by their owner alone."""

import os
import stat
from contextlib import suppress
from errno import errorcode
from pathlib import Path
from typing import Final

from bollard.trust.errors import KeyFileError

# A file name survives a power loss only after the folder that holds it was flushed.


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Create a folder and its parents, and flush each parent. Raises `OSError`."""
    if path.is_dir():
        return
    try:
        path.mkdir(mode, exist_ok=True)
    except FileNotFoundError:
        make_folder(path.parent)
        path.mkdir(mode, exist_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Flush a folder to disk. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


SECRET_BYTES: Final = 32


def load_or_make_secret(path: Path) -> bytes:
    """Return the secret in `path`, created on first use. Raises `KeyFileError`."""
    return load_or_make(path, os.urandom(SECRET_BYTES))


def load_or_make(path: Path, fresh: bytes) -> bytes:
    """Return the 32 bytes in `path`. If the file is missing, write `fresh` to it. Raises `KeyFileError`."""
    if path.exists():
        return _load(path)
    # Renamed when complete: a process that dies in between must not leave half a key.
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        make_folder(path.parent)
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(fresh.hex().encode())
            file.flush()
            os.fsync(file.fileno())
        os.link(unfinished, path)
        unfinished.unlink()
        sync_folder(path.parent)
    except FileExistsError:
        return _load(path)
    except OSError as error:
        hint = "make the data directory writable for this user"
        problem = f"cannot be written: {error.strerror}"
        raise KeyFileError(str(path), problem, hint, "key.not_written", inner=_of_system(error)) from error
    finally:
        with suppress(OSError):
            unfinished.unlink()
    return fresh


def _of_system(error: OSError) -> dict[str, str]:
    return {"problem": error.strerror or "", "problem_type": f"os.{errorcode.get(error.errno or 0, 'unknown')}"}


def _load(path: Path) -> bytes:
    try:
        mode, text = path.stat().st_mode, path.read_bytes()
    except OSError as error:
        hint = "run as the user who owns the data directory"
        problem = f"cannot be read: {error.strerror}"
        raise KeyFileError(str(path), problem, hint, "key.not_read", inner=_of_system(error)) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        hint = f"chmod 600 {path.name}"
        raise KeyFileError(str(path), "is readable by others", hint, "key.open_to_others", name=path.name)
    try:
        secret = bytes.fromhex(text.decode().strip())
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES:
        hint = "restore it from a backup: a new one verifies nothing old"
        raise KeyFileError(str(path), "does not hold a key", hint, "key.no_key")
    return secret
