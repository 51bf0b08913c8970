"""Launches of long-running programs: the command line, the descriptors and the control group of a confined process.

Knows nothing about plugins. The level comes from `worker_level`, the paths from the caller.
"""

import asyncio
import contextlib
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import bollard
from bollard.confine.cgroup import ControlGroup, GroupLimits, SharedGroup, make_control_group
from bollard.confine.cgroup_places import find_places
from bollard.confine.errors import JailBroken, OverLimit
from bollard.confine.launch_order import (
    HOME,
    NETWORK_VARIABLE,
    PROXY_PORT,
    SHARED,
    TEMPORARY,
    LaunchLimits,
    LaunchOrder,
)
from bollard.confine.limits import (
    LAUNCH_GROUP_BYTES,
    LAUNCH_LISTENER_S,
    LAUNCH_PROCESSES,
    LAUNCH_PROCESSORS,
    LAUNCH_REMOVAL_S,
    LAUNCH_REMOVALS,
    ORDER_BYTES,
)
from bollard.confine.order import DEVICES, system_places
from bollard.confine.worker_level import WorkerLevel

_ROOT: Final = str(Path(bollard.__file__).resolve().parents[1])
_MACHINE: Final = (
    "/etc/hosts",
    "/etc/mime.types",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
)
"""Certificates and names of the machine, besides the system's places. No private keys."""


_BARE: Final = MappingProxyType({"LANG": "C.UTF-8"})
"""The variables of the launcher."""
_NO_VALUES: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchNeeds:
    """What a program may use beyond the system's programs."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    exact_read: tuple[str, ...] = ()
    exact_write: tuple[str, ...] = ()
    """Paths without links, in folders that other programs may write: the program does not start if one has become a
    link, and has no Unix sockets, because a folder may hold those of a service."""
    hidden: tuple[str, ...] = ()
    """Folders of which only `read` and `write` are seen, wherever they are. Needs namespaces."""
    memory_bytes: int = LAUNCH_GROUP_BYTES
    """Memory of all its processes together."""
    processors: float = LAUNCH_PROCESSORS
    shared_group: SharedGroup | None = None
    """The control group whose limits it shares with other programs."""
    network: bool = False
    """Whether a proxy serves it."""
    descriptor_variable: str = ""
    """The variable with the number of the descriptor that it inherits."""
    grace_s: float = 0.0
    """How long it may live after the host has died."""


class Launch:
    """One confined process, before, during and after its life."""

    def __init__(self, level: WorkerLevel, argv: Sequence[str], *, cwd: str, needs: LaunchNeeds) -> None:
        """Create its control group and its folder. Blocks for a moment. Raises `JailBroken` and `OverLimit`."""
        self._level = level
        self._group: ControlGroup | None = None
        self._scratch: Path | None = None
        self._order = -1
        self._control: tuple[socket.socket, socket.socket] | None = None
        self.listener: socket.socket | None = None
        """Where the program reaches its proxy, without namespaces at once, otherwise after `receive_listener`."""
        try:
            self._prepare(argv, cwd, needs)
        except OSError as error:
            self.release()
            self._remove_files()
            if self._group is not None:
                self._group.remove()
            raise JailBroken(
                f"the sandbox could not be prepared: {error}",
                hint="see `bollard doctor`, and check open files",
                details={"problem_type": "workers.unprepared", "inner": {"problem": str(error)}},
            ) from error

    def _prepare(self, argv: Sequence[str], cwd: str, needs: LaunchNeeds) -> None:
        level = self._level
        places = {name: place for name, place in find_places().items() if name in level.controllers}
        if places:
            limits = GroupLimits(
                processes=LAUNCH_PROCESSES, memory_bytes=needs.memory_bytes, processors=needs.processors
            )
            make = make_control_group if needs.shared_group is None else needs.shared_group.make
            self._group = make(places, limits)
        if not level.namespaces:
            self._scratch = Path(tempfile.mkdtemp(prefix="bollard-worker-"))
            (self._scratch / "tmp").mkdir()
        if needs.network:
            self._open_network()
        self._readable = (*_readable(argv[0]), *needs.read, *needs.exact_read)
        own = () if self._scratch is None else (str(self._scratch),)
        self._writable = (*needs.write, *needs.exact_write, *own)
        self._order = os.memfd_create("order")
        self._ordered = LaunchOrder(
            argv=tuple(argv),
            cwd=cwd,
            environment={},
            namespaces=level.namespaces,
            landlock=bool(level.landlock),
            seccomp=level.seccomp,
            readable=self._readable,
            writable=self._writable,
            exact=(*needs.exact_read, *needs.exact_write),
            hidden=needs.hidden,
            groups=() if self._group is None else tuple(map(str, self._group.folders)),
            may_leave_session=level.namespaces or self._group is not None,
            parent=os.getpid(),
            grace_s=needs.grace_s,
            descriptor_variable=needs.descriptor_variable,
            proxy=None if self._control is None else self._control[1].fileno(),
            proxy_port=None if self.listener is None else self.listener.getsockname()[1],
            limits=LaunchLimits(),
        )
        self._write(self._ordered)

    def _write(self, order: LaunchOrder) -> None:
        text = order.encode()
        if len(text) > ORDER_BYTES:
            raise OverLimit(
                f"the command is longer than {ORDER_BYTES} bytes",
                hint="shorten its arguments",
                details={"problem_type": "workers.too_long", "limit": ORDER_BYTES},
            )
        os.ftruncate(self._order, 0)
        os.pwrite(self._order, text, 0)

    def _open_network(self) -> None:
        if self._level.namespaces:
            self._control = socket.socketpair()
        else:
            self.listener = socket.create_server(("127.0.0.1", 0))

    @property
    def argv(self) -> list[str]:
        """The command line of the process."""
        start = f"import sys; sys.path.insert(0, {_ROOT!r}); from bollard.confine.launch_process import main; "
        return [sys.executable, "-I", "-S", "-c", f"{start}main({self._order})"]

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The descriptors that the process inherits."""
        return (self._order,) if self._control is None else (self._order, self._control[1].fileno())

    @property
    def proxy_address(self) -> tuple[str, int] | None:
        """Where the program finds its proxy."""
        if self._control is not None:
            return ("127.0.0.1", PROXY_PORT)
        return None if self.listener is None else self.listener.getsockname()

    def environment(
        self, given: Mapping[str, str], home: str = "", values: Mapping[str, str] = _NO_VALUES
    ) -> dict[str, str]:
        """Order the variables of the program: the given ones, its temporary folder and its home, which is its own
        unless `home` names another; `values` win over all of these. Returns those of the launcher, which has none of
        the program's: its loader would obey `LD_PRELOAD` before there is any confinement. Raises `OverLimit`."""
        own = {"HOME": home or HOME}
        if self._scratch is not None:
            own = {"HOME": home or str(self._scratch), "TMPDIR": str(self._scratch / "tmp")}
        if self.proxy_address is None:
            own[NETWORK_VARIABLE] = "none"
        inherited = {name: value for name, value in given.items() if name != "TMPDIR"}
        self._write(self._ordered._replace(environment={**inherited, **own, **values}))
        return dict(_BARE)

    def reads(self, path: str) -> bool:
        """Whether the process has a path of the machine."""
        return self.writes(path) or _is_below(path, (*self._readable, *DEVICES))

    def writes(self, path: str) -> bool:
        """Whether the process may write to a path of the machine."""
        return path in (TEMPORARY, SHARED, HOME) or _is_below(path, (*self._writable, "/proc"))

    async def receive_listener(self) -> None:
        """Wait for the listener of a started process with a network of its own. Raises `JailBroken`."""
        if self._control is None:
            return
        ours, theirs = self._control
        theirs.close()
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        loop.add_reader(ours.fileno(), arrived.set)
        try:
            await asyncio.wait_for(arrived.wait(), LAUNCH_LISTENER_S)
            descriptors = socket.recv_fds(ours, 1, 1)[1]
        except (OSError, TimeoutError) as error:
            raise _unfinished("the sandbox sent no listener", "no_listener") from error
        finally:
            loop.remove_reader(ours.fileno())
        if not descriptors:
            raise _unfinished("the sandbox ended before it sent its listener", "ended")
        self.listener = socket.socket(fileno=descriptors[0])

    def find_program(self, leader: int) -> int:
        """Return the pid of the program, given that of the started process: with namespaces two processes wait for
        it."""
        if not self._level.namespaces:
            return leader
        pid = leader
        with contextlib.suppress(OSError, ValueError, IndexError):
            for _ in range(2):
                pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()[0])
            return pid
        return leader

    def release(self) -> None:
        """Close the descriptors of the parent: the process has started, or never will."""
        if self._order >= 0:
            os.close(self._order)
            self._order = -1
        if self._control is not None:
            for end in self._control:
                end.close()

    async def close(self) -> None:
        """Kill whatever is left of the process, and remove its control group and its folder."""
        self.release()
        if self.listener is not None:
            self.listener.close()
        await self._remove_group()
        await asyncio.to_thread(self._remove_files)  # last: a living process could create files meanwhile

    async def _remove_group(self) -> None:
        if self._group is None:
            return
        for _ in range(LAUNCH_REMOVALS):
            await asyncio.to_thread(self._group.kill)
            if self._group.remove():
                return
            await asyncio.sleep(LAUNCH_REMOVAL_S)

    def _remove_files(self) -> None:
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    @property
    def memory_kills(self) -> int:
        """How many of its processes were killed because their memory was used up."""
        return 0 if self._group is None else self._group.memory_kills()


def _unfinished(message: str, problem: str) -> JailBroken:
    return JailBroken(message, hint="see the log of the plugin", details={"problem_type": f"workers.{problem}"})


def _is_below(path: str, places: Iterable[str]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


def _readable(program: str) -> tuple[str, ...]:
    """The machine's programs and libraries, our own code, and the installation of the program itself."""
    found = [*system_places(), *_MACHINE, sys.prefix, _ROOT]
    real = os.path.realpath(program)
    is_shown = any(os.path.commonpath((real, os.path.realpath(each))) == os.path.realpath(each) for each in found)
    found.append(program)  # with the links that lead to it, such as those of a virtual environment
    if not is_shown:
        found.append(real)
        for folder in map(os.path.dirname, (program, real)):
            if os.path.basename(folder) == "bin":  # with its interpreter, and the libraries of its installation
                found += [folder, os.path.join(os.path.dirname(folder), "lib")]
    return tuple(found)
