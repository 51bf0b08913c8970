"""Runs probes at one level: `python -m tests.confine.hostile.run FOLDER LEVEL PROBE...` prints their outcomes.

It stands for the host: it has secrets, services and processes, and starts the hostile program through `Launch`.
Needs nothing but the standard library and `bollard.confine`, so that any user with a Python can run it.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import io
import json
import os
import pty
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from bollard.confine import trial
from bollard.confine.cgroup_places import find_places
from bollard.confine.launch import Launch, LaunchNeeds
from bollard.confine.probe import Findings
from bollard.confine.worker_level import WorkerLevel, choose_level

HERE: Final = Path(__file__).resolve().parent
CANARY: Final = b"canary"
_READY: Final = "import sys; print('ready', flush=True); sys.stdin.read()"


def level_of(name: str, findings: Findings) -> WorkerLevel | None:
    """The level of this name on this machine; `None` if the machine lacks it. `+alone` leaves out control groups."""
    wanted, _, alone = name.partition("+")
    if wanted == "namespaces":
        findings = dataclasses.replace(findings, landlock=0)
    elif wanted == "landlock":
        findings = dataclasses.replace(findings, view=False, namespaces=False)
    if alone:
        findings = dataclasses.replace(findings, controllers=())
    level = choose_level("none" if wanted == "none" else "best", findings)
    return level if level.name == wanted or (alone and level.name == "namespaces") else None


@dataclasses.dataclass(frozen=True)
class Place:
    """The folders of a host with two plugins."""

    root: Path

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def plugin(self) -> Path:
        return self.data / "plugins" / "hostile"


def make_place(root: Path) -> Place:
    place = Place(root)
    for path in ("data/keys/host.key", "data/bollard.db", "data/plugins/other/secret", "data/workspaces/run/file"):
        _write(root / path)
    for path in ("home/.ssh/id", "data/disposable", "data/doomed"):
        _write(root / path)
    program = place.plugin / "tests" / "confine" / "hostile"
    program.mkdir(parents=True)
    for source in HERE.glob("*.py"):
        shutil.copy(source, program)
    _write(place.plugin / "runner.py")
    return place


def _write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(CANARY)
    path.chmod(0o600)


@contextlib.contextmanager
def targets(place: Place) -> Iterator[dict[str, Any]]:
    """Everything that the hostile program tries to reach."""
    with contextlib.ExitStack() as stack:
        victim = stack.enter_context(
            subprocess.Popen(
                [sys.executable, str(HERE / "victim.py"), str(place.data / "keys/host.key"), str(place.root / "noted")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "SECRET": "canary"},
                start_new_session=True,
            )
        )
        stack.callback(victim.kill)
        assert victim.stdout is not None
        found: dict[str, Any] = json.loads(victim.stdout.readline())
        suffix = f"{os.getpid()}-{os.path.basename(place.root)}"
        for name, path in (("temporary", f"/tmp/bollard-hostile-{suffix}"), ("shared", f"/dev/shm/hostile-{suffix}")):
            _write(Path(path))
            stack.callback(os.unlink, path)
            found[f"{name}_secret"] = path
        found |= {
            "data": str(place.data),
            "data_keys": str(place.data / "keys"),
            "key": str(place.data / "keys/host.key"),
            "database": str(place.data / "bollard.db"),
            "other_plugin": str(place.data / "plugins/other/secret"),
            "workspace": str(place.data / "workspaces/run/file"),
            "disposable": str(place.data / "disposable"),
            "doomed": str(place.data / "doomed"),
            "home_secret": str(place.root / "home/.ssh/id"),
            "plugin": str(place.plugin),
            "code": sys.modules[Launch.__module__].__file__,
            "segment_key": _make_segment(stack),
        }
        yield found | _make_services(stack, place.root, suffix)


def _make_segment(stack: contextlib.ExitStack) -> int:
    library = __import__("ctypes").CDLL(None)
    key = 0x5EED0000 + os.getpid() % 0xFFFF
    made = library.shmget(key, 4096, 0o1600)
    stack.callback(library.shmctl, made, 0, None)
    return key


def _make_services(stack: contextlib.ExitStack, root: Path, suffix: str) -> dict[str, Any]:
    short = f"/tmp/bollard-hostile-{suffix}"  # a path of a socket is short
    stack.callback(lambda: [os.unlink(f"{short}.{kind}") for kind in ("stream", "datagram")])
    tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    tcp_6 = stack.enter_context(socket.create_server(("::1", 0), family=socket.AF_INET6))
    udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    udp.bind(("127.0.0.1", 0))
    udp_6 = stack.enter_context(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM))
    udp_6.bind(("::1", 0))
    path = stack.enter_context(socket.socket(socket.AF_UNIX))
    path.bind(f"{short}.stream")
    path.listen()
    abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
    abstract.bind(f"\0hostile-{suffix}")
    abstract.listen()
    datagram = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    datagram.bind(f"{short}.datagram")
    for server in (tcp, tcp_6, path, abstract):
        serve(server)
    for server in (udp, udp_6):
        threading.Thread(target=_echo, args=(server,), daemon=True).start()
    return {
        "tcp_port": tcp.getsockname()[1],
        "tcp_port_6": tcp_6.getsockname()[1],
        "udp_port": udp.getsockname()[1],
        "udp_port_6": udp_6.getsockname()[1],
        "path_socket": f"{short}.stream",
        "abstract_socket": f"hostile-{suffix}",
        "datagram_socket": f"{short}.datagram",
    }


def serve(server: socket.socket) -> None:
    """Send the canary to each client."""
    threading.Thread(target=_serve, args=(server,), daemon=True).start()


def _serve(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            with server.accept()[0] as client:
                client.sendall(CANARY)
                client.recv(100)


def _echo(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            server.sendto(CANARY, server.recvfrom(100)[1])


class Confined:
    """A program that was started at a level, with the descriptors and variables of a worker."""

    def __init__(self, level: WorkerLevel, place: Place, argv: list[str], *, network: bool, stdin: int, **needs: Any):
        self.launch: Launch | None = None
        self.closed = False
        ours, theirs = socket.socketpair()
        leaked = os.open(place.data / "keys/host.key", os.O_RDONLY)
        channel = {"CHANNEL": str(theirs.fileno())}
        environment = {"PATH": os.defpath, "PYTHONPATH": str(place.plugin)}
        descriptors: tuple[int, ...] = ()
        if level.name == "none":
            environment |= {"HOME": str(place.root), "PYTHONPATH": f"{place.plugin}:{_code()}", "SECRET": "canary"}
        else:
            needed = LaunchNeeds(
                read=(str(place.plugin), *needs.pop("read", ())),
                hidden=(str(place.data),),
                network=network,
                descriptor_variable="CHANNEL",
                **needs,
            )
            self.launch = Launch(level, argv, cwd=str(place.plugin), needs=needed)
            environment = self.launch.environment(environment | {"PYTHONPATH": f"{place.plugin}:{_code()}"})
            argv, descriptors = self.launch.argv, self.launch.descriptors
        self.process = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=subprocess.PIPE,
            env=environment | channel,
            pass_fds=(theirs.fileno(), leaked, *descriptors),
            cwd=None if self.launch is not None else place.plugin,
            start_new_session=True,
            text=True,
        )
        theirs.close()
        os.close(leaked)
        self.channel = ours

    async def start(self) -> None:
        if self.launch is not None:
            await self.launch.receive_listener()
            self.launch.release()

    async def close(self) -> None:
        """End it as the host ends a worker. Once."""
        if self.closed:
            return
        self.closed = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.launch is not None:
            await self.launch.close()
        for file in (self.process.stdin, self.process.stdout, self.channel):
            if file is not None:
                file.close()


def _code() -> str:
    return str(Path(sys.modules[Launch.__module__].__file__ or "").parents[2])


async def run_probes(
    place: Place, level: WorkerLevel, probes: list[str], *, network: bool, shows_errors: bool = False
) -> Mapping[str, str]:
    """Return the outcome of each probe: `stopped`, `reached`, `timed out` or `broken`. With `shows_errors`, `stopped by
    ERROR` tells a wall from what the machine lacks."""
    outcomes: dict[str, str] = {}
    controller, terminal = pty.openpty()
    with targets(place) as found, contextlib.ExitStack() as stack:
        sibling = Confined(
            level, place, [sys.executable, "-c", _READY], network=False, stdin=subprocess.PIPE, grace_s=0
        )
        await sibling.start()
        assert sibling.process.stdout is not None
        if sibling.process.stdout.readline() != "ready\n":
            raise RuntimeError("the sibling did not start")
        program = [sys.executable, "-m", "tests.confine.hostile.program", *probes]
        attacker = Confined(level, place, program, network=network, stdin=terminal)
        await attacker.start()
        try:
            pid = sibling.process.pid
            found |= {
                "sibling": pid if sibling.launch is None else sibling.launch.find_program(pid),
                "victim_visible": not level.namespaces,
                **_groups(),
                "proxy_elsewhere": _serve_proxy(stack, attacker.launch),
            }
            attacker.channel.sendall(json.dumps(found).encode() + b"\n")
            await asyncio.to_thread(_read_outcomes, attacker.process, outcomes, shows_errors)
        finally:
            await attacker.close()
            await sibling.close()
            os.close(controller)
            os.close(terminal)
    for name, trace in (("signal_by_input", place.root / "noted"), ("create_file", place.data / "planted")):
        if trace.exists():
            outcomes[name] = "reached"
            trace.unlink()
    return outcomes


def _groups() -> dict[str, list[str]]:
    """The control groups of this process, those of its programs, and the roots of version 1."""
    places = list(dict.fromkeys(find_places().values()))
    made = [str(folder) for place in places for folder in place.glob(f"bollard-*-{os.getpid()}-*")]
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()]
    roots = [mount for mount in mounts if os.path.exists(f"{mount}/release_agent")]
    outer = [str(place) for place in places]
    return {"outer_groups": outer, "groups": made or outer, "group_roots": roots}


def _serve_proxy(stack: contextlib.ExitStack, launch: Launch | None) -> tuple[str, int] | None:
    """Another service at the port of the proxy, on another address of this machine, which no parallel test uses."""
    if launch is None or launch.proxy_address is None:
        return None
    high, low = divmod(os.getpid() % 60_000, 250)
    place = (f"127.1.{high}.{low + 2}", launch.proxy_address[1])
    serve(stack.enter_context(socket.create_server(place)))
    return place


def _read_outcomes(process: "subprocess.Popen[str]", outcomes: dict[str, str], shows_errors: bool) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("listening "):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", int(line.split()[1])), 1) as one:
                one.sendall(CANARY)
            continue
        found = json.loads(line)
        error = f" by {found['error']}" if shows_errors and found["error"] else ""
        outcomes[found["probe"]] = found["outcome"] + error


def _find_out() -> Findings:
    """Probe the machine in this process: an isolated Python does not find a copy of our code."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        trial.main()
    found = json.loads(printed.getvalue())
    return Findings(**{**found, "tried": True, "controllers": tuple(found["controllers"])})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("level")
    parser.add_argument("probes", nargs="+")
    parser.add_argument("--network", action="store_true")
    parser.add_argument("--errors", action="store_true")
    given = parser.parse_args()
    level = level_of(given.level, _find_out())
    outcomes = (
        None
        if level is None
        else asyncio.run(
            run_probes(make_place(given.folder), level, given.probes, network=given.network, shows_errors=given.errors)
        )
    )
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main()
