"""Folders that outlive a power loss: a name is on disk only when the folder that holds it was flushed."""

import os
from pathlib import Path

__all__ = ["make_folder", "sync_folder"]


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Make a folder and those above it, each flushed into the one that holds it. Raises `OSError`."""
    if path.is_dir():
        return
    try:
        path.mkdir(mode, exist_ok=True)
    except FileNotFoundError:
        make_folder(path.parent)
        path.mkdir(mode, exist_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Flush the names in a folder. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
