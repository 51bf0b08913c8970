"""Removes a folder with everything in it, however deep, and whatever a program left there."""

import contextlib
import os
import secrets
from pathlib import Path
from typing import Final

__all__ = ["remove_tree"]

_LEVELS: Final = 64
"""How far down is gone at once; what is deeper is brought up first, so that no depth is too deep."""
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: Path) -> None:
    """Nobody else works in there any more. Raises `OSError` where something cannot be removed."""
    with contextlib.suppress(FileNotFoundError):
        root = os.open(path, _OPEN)
        try:
            while not _is_emptied(root, root, 0):
                pass  # each time the rest is less deep
        finally:
            os.close(root)
        path.rmdir()


def _is_emptied(root: int, folder: int, level: int) -> bool:
    """Whether all of it is gone; else something deep lies in the root now."""
    done = True
    for name in os.listdir(folder):
        try:
            os.unlink(name, dir_fd=folder)
        except IsADirectoryError:
            if level == _LEVELS:
                os.rename(name, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=root)
                done = False
            else:
                done &= _is_dissolved(root, folder, name, level)
    return done


def _is_dissolved(root: int, parent: int, name: str, level: int) -> bool:
    os.chmod(name, 0o700, dir_fd=parent)  # it is no link: that would be gone
    folder = os.open(name, _OPEN, dir_fd=parent)
    try:
        done = _is_emptied(root, folder, level + 1)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=parent)  # empty in any case: what was deeper has left
    return done
