"""The command as people start it: a real process behind pipes, or behind a pseudo-terminal."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

BOLLARD = str(Path(sys.executable).with_name("bollard"))
PATIENCE_S = 20
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")


def environment(**more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**kept, "LANG": "C.UTF-8", "COLUMNS": "80", **more}


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def bollard(tmp_path: Path) -> Callable[..., Finished]:
    """Run the installed command in an empty folder and wait for its end."""

    def run(*arguments: str, stdin: str | bytes = "", cwd: Path | None = None, **variables: str) -> Finished:
        done = subprocess.run(
            [BOLLARD, *arguments],
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            cwd=cwd or tmp_path,
            env=environment(**variables),
            timeout=PATIENCE_S,
            check=False,
        )
        return Finished(code=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())

    return run


class Terminal:
    """A command behind a pseudo-terminal; what it shows is awaited, never guessed."""

    def __init__(self, arguments: tuple[str, ...], cwd: Path, columns: int, variables: dict[str, str]) -> None:
        self.shown = ""
        self._seen = 0
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(cwd)
            os.execve(BOLLARD, [BOLLARD, *arguments], environment(TERM="xterm", **variables))
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))

    def expect(self, pattern: str) -> str:
        """Wait until something new fits the pattern; gives the text up to its end."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            if found := re.search(pattern, self.shown[self._seen :]):
                text = self.shown[self._seen : self._seen + found.end()]
                self._seen += found.end()
                return text
            assert time.monotonic() < deadline, f"{pattern!r} never came; shown: {self.shown[self._seen :]!r}"
            assert self._read(), f"it ended before {pattern!r}; shown: {self.shown[self._seen :]!r}"

    def _read(self) -> bool:
        if not select.select([self._fd], [], [], 0.2)[0]:
            return True
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # the other side is closed
            return False
        self.shown += ANSI.sub("", data.decode("utf-8", "replace"))
        return bool(data)

    def send(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def end(self) -> int:
        """Wait for the command to leave by itself; gives its exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while self._read():
            assert time.monotonic() < deadline, f"it does not leave; shown: {self.shown[self._seen :]!r}"
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Start the command behind a pseudo-terminal."""
    opened: list[Terminal] = []

    def start(*arguments: str, columns: int = 80, **variables: str) -> Terminal:
        opened.append(Terminal(arguments, tmp_path, columns, variables))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Write a file into the test's folder."""

    def put(name: str, content: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(content).lstrip("\n"), encoding="utf-8")
        return path

    return put
