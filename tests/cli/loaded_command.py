"""The command in a new process each time, without loading its modules each time: loading takes most of the time.

As a program this is the process that has loaded them: for each order it forks a child with the order's arguments,
folder, environment and pipes, which runs the command's entry point and ends as a program ends. `LoadedCommand` is the
other end. The program itself (its start, its imports, its encodings) is tested with the installed script.
"""

import array
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["LoadedCommand"]

ROOT = Path(__file__).parents[2]
_SIZE = struct.Struct("<I")
_ANSWER = struct.Struct("<i")
_NOT_LOADED = ("serving", "http_server", "inspection")  # the host, and what starts as a program of its own
_PIPES = 3


class LoadedCommand:
    """One for a test process, because it takes one order at a time."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", "tests.cli.loaded_command", str(theirs.fileno())]
            self._server = subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd=ROOT, env=environment)

    def close(self) -> None:
        self._socket.close()
        self._server.wait()

    def run(
        self, arguments: Sequence[str], given: bytes, *, cwd: Path, environment: Mapping[str, str], timeout_s: float
    ) -> "subprocess.CompletedProcess[bytes]":
        """As `subprocess.run` would."""
        pipes = [os.pipe() for _ in range(_PIPES)]
        ours = [pipes[0][1], pipes[1][0], pipes[2][0]]
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
        order = json.dumps([list(arguments), str(cwd), dict(environment)]).encode()
        self._socket.settimeout(timeout_s)
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", theirs))
        self._socket.sendmsg([_SIZE.pack(len(order))], [rights])
        self._socket.sendall(order)
        for descriptor in theirs:
            os.close(descriptor)
        out, err = [bytearray(), bytearray()]
        threads = [
            threading.Thread(target=_read, args=(ours[1], out)),
            threading.Thread(target=_read, args=(ours[2], err)),
        ]
        threads.append(threading.Thread(target=_write, args=(ours[0], given)))
        for thread in threads:
            thread.start()
        pid = _ANSWER.unpack(_received(self._socket, _ANSWER.size))[0]
        try:
            code = _ANSWER.unpack(_received(self._socket, _ANSWER.size))[0]
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            self._socket.settimeout(None)
            _received(self._socket, _ANSWER.size)
            raise subprocess.TimeoutExpired(list(arguments), timeout_s, bytes(out), bytes(err)) from None
        finally:
            for thread in threads:
                thread.join(timeout_s)
        return subprocess.CompletedProcess(list(arguments), code, bytes(out), bytes(err))


def _read(descriptor: int, found: bytearray) -> None:
    with open(descriptor, "rb", buffering=0) as pipe:
        while piece := pipe.read(1 << 16):
            found += piece


def _write(descriptor: int, given: bytes) -> None:
    with contextlib.suppress(BrokenPipeError), open(descriptor, "wb", buffering=0) as pipe:
        while given:
            given = given[pipe.write(given) :]


def _received(line: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = line.recv(size - len(found))
        if not piece:
            raise EOFError
        found += piece
    return found


# --- the process that has loaded them ---


def _load() -> None:
    package = importlib.import_module("bollard.cli")
    for found in pkgutil.iter_modules(package.__path__):
        if found.name not in _NOT_LOADED and not found.ispkg:
            importlib.import_module(f"bollard.cli.{found.name}")
    importlib.import_module("bollard.protocol.front_door")
    gc.freeze()


def _serve(line: socket.socket) -> None:
    """Returns in each child that runs the command, and ends after the last order."""
    while True:
        size, descriptors, _, _ = socket.recv_fds(line, _SIZE.size, _PIPES)
        if not size:
            sys.exit()
        arguments, folder, environment = json.loads(_received(line, _SIZE.unpack(size)[0]))
        child = os.fork()
        if child == 0:
            line.close()
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
                os.close(descriptor)
            _new_streams()
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment)
            sys.argv = ["bollard", *arguments]
            return
        for descriptor in descriptors:
            os.close(descriptor)
        line.sendall(_ANSWER.pack(child))
        line.sendall(_ANSWER.pack(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))


def _new_streams() -> None:
    """New streams, as a program finds them: the old ones refer to other files."""
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115


if __name__ == "__main__":
    _load()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    importlib.import_module("bollard.cli.main").main()
