"""Our helper processes after they have confined themselves: real attempts of a process that runs another's code."""

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bollard.confine.landlock import NET_FROM
from bollard.confine.probe import Findings

ATTEMPTS = """
import json, os, signal, socket, sys
from bollard.confine.helper import confine_helper
order = json.loads(sys.argv[1])
confine_helper(**order["confined"])
tries = {
    "read": lambda: open(order["key"]).read(),
    "list": lambda: os.listdir(os.path.dirname(order["key"])),
    "read own": lambda: open(order["own"]).read(),
    "write own": lambda: open(order["own"], "a").write("more"),
    "write": lambda: open(order["key"], "a").write("more"),
    "kill": lambda: os.kill(order["pid"], signal.SIGTERM),
    "chmod": lambda: os.chmod(order["key"], 0o777),
    "environment": lambda: open(f"/proc/{order['pid']}/environ").read(),
    "tcp": lambda: socket.create_connection(("127.0.0.1", order["port"])).close(),
    "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close(),
    "unix": lambda: socket.socket(socket.AF_UNIX).close(),
    "pair": lambda: socket.socketpair(),
    "listen": lambda: socket.create_server(("127.0.0.1", 0)).close(),
    "import": lambda: __import__("bollard.wire"),
}
held = {}
for name, attempt in tries.items():
    try:
        attempt()
    except OSError:
        held[name] = False
    else:
        held[name] = True
print(json.dumps(held))
"""


@pytest.fixture
def attempted(tmp_path: Path, findings: Findings) -> Any:
    if not findings.landlock >= NET_FROM or not findings.seccomp:
        pytest.skip(f"this machine cannot confine a process by itself: {findings}")
    own, key = tmp_path / "own", tmp_path / "keys" / "host.key"
    for path in (own / "file", key):
        path.parent.mkdir()
        path.write_text("canary")
    sleeper = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def attempt(port: int, **confined: Any) -> set[str]:
        order = {"confined": confined, "key": str(key), "own": str(own / "file"), "pid": sleeper.pid, "port": port}
        line = [sys.executable, "-c", ATTEMPTS, json.dumps(order)]
        done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return {name for name, held in json.loads(done.stdout).items() if held}

    yield attempt
    assert sleeper.poll() is None
    sleeper.kill()
    sleeper.communicate()
    assert (key.read_text(), key.stat().st_mode & 0o777) == ("canary", 0o644)


@pytest.fixture
def port() -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


ALWAYS = {"pair", "import"}


def test_a_process_that_needs_nothing_has_nothing(attempted: Any, port: int) -> None:
    assert attempted(port) == ALWAYS


def test_a_process_with_a_folder_has_no_other(attempted: Any, port: int, tmp_path: Path) -> None:
    assert attempted(port, writable=[str(tmp_path / "own")]) == {*ALWAYS, "read own", "write own"}


def test_the_local_model_listens_and_connects_to_no_one(attempted: Any, port: int, tmp_path: Path) -> None:
    weights = str(tmp_path / "own" / "file")
    assert attempted(port, readable=[weights], sockets="loopback", listens=[0]) == {*ALWAYS, "read own", "listen"}
