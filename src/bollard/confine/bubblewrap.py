"""The command line of bubblewrap for an order. Pure."""

import os

from bollard.confine.order import JailOrder

__all__ = ["bubblewrap_line"]


def bubblewrap_line(order: JailOrder, filter_descriptor: int) -> list[str]:
    """Only what is named is there: the rest of the machine has no place in the program's file system."""
    line = [order.bubblewrap, "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--clearenv"]
    for path in order.readable:
        if os.path.islink(path):
            line += ["--symlink", os.readlink(path), path]
        else:
            line += ["--ro-bind-try", path, path]
    # Bubblewrap's own root and devices are in memory that no limit counts: nothing is written there.
    line += ["--dev", "/dev", "--remount-ro", "/dev"]
    for path in order.writable:
        line += ["--bind", path, path]
    line += ["--remount-ro", "/"]
    for name, value in order.environment.items():
        line += ["--setenv", name, value]
    return [*line, "--chdir", order.cwd, "--seccomp", str(filter_descriptor), "--", *order.argv]
