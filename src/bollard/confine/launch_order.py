"""The order of a launch: one long-running program, its confinement and its limits. Sent as JSON."""

import json
from typing import Any, Final, NamedTuple

from bollard.confine.limits import LAUNCH_FILES, LAUNCH_HOME_BYTES, LAUNCH_MEMORY_BYTES

HOME: Final = "/home/user"
"""The home of a program that has a file system of its own."""
TEMPORARY: Final = "/tmp"  # noqa: S108 - of its own file system
SHARED: Final = "/dev/shm"  # noqa: S108 - likewise
NETWORK_VARIABLE: Final = "BOLLARD_SANDBOX_NETWORK"
"""Is `none` for a program without a network, so that clients can say why they fail."""
PROXY_PORT: Final = 3128
"""The port of the proxy on the loopback of a network namespace."""


# Named tuples: the module of data classes takes as long to import as the rest of a launch.


class LaunchLimits(NamedTuple):
    """The limits of each process of a program. A control group limits all of them together."""

    memory_bytes: int = LAUNCH_MEMORY_BYTES
    """Data of one process. Not its address space: some languages reserve more than they use."""
    open_files: int = LAUNCH_FILES
    home_bytes: int = LAUNCH_HOME_BYTES
    """Its home and its temporary files; without a file system of its own, each file."""


class LaunchOrder(NamedTuple):
    """One program and its confinement."""

    argv: tuple[str, ...]
    cwd: str
    environment: dict[str, str]
    """The variables of the program. The launcher has none of them."""
    namespaces: bool
    """Whether namespaces are added to Landlock and the filter: own processes, files and network."""
    landlock: bool
    seccomp: bool
    readable: tuple[str, ...]
    writable: tuple[str, ...]
    parent: int
    """The pid of the parent."""
    exact: tuple[str, ...] = ()
    """Readable and writable paths that are opened without following a link."""
    hidden: tuple[str, ...] = ()
    """Folders that look empty, except for readable and writable paths in them. With namespaces."""
    groups: tuple[str, ...] = ()
    """The control groups to enter."""
    may_leave_session: bool = True
    """Whether its processes may leave their process group. False if nothing else can end those that do."""
    grace_s: float = 0.0
    """How long the program may live after the parent has exited, with namespaces."""
    descriptor_variable: str = ""
    """The variable with the number of the descriptor that the program gets besides its standard ones."""
    proxy: int | None = None
    """With namespaces: the socket on which the listener for the proxy is sent."""
    proxy_port: int | None = None
    """Without: the port of the proxy on loopback, the only one that can be reached."""
    limits: LaunchLimits = LaunchLimits()

    def encode(self) -> bytes:
        return json.dumps({**self._asdict(), "limits": self.limits._asdict()}).encode()

    @staticmethod
    def decode(text: bytes) -> "LaunchOrder":
        """Decode what `encode` wrote. Both sides always have the same version."""
        fields: dict[str, Any] = json.loads(text)
        fields["limits"] = LaunchLimits(**fields["limits"])
        for name in ("argv", "readable", "writable", "exact", "hidden", "groups"):
            fields[name] = tuple(fields[name])
        return LaunchOrder(**fields)
