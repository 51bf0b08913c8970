"""The walk of one page, typed as documented: a call needs an approval, the host is killed and restarted, the call is
approved and made once, and a changed byte of the log is found.

Long-running commands stay in separate terminals, as in the page: the host in the first, the chat in another. Reading
commands are repeated until they show the text of the page, because a user is slower than the host.
"""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.ports import free_port

pytestmark = pytest.mark.full


PAGE = "docs/guides/approve-a-tool.md"
DOCUMENTED_PORT = "8430"
SETTLE_S = 120.0
"""From an approval to the end of its effects."""
GOES_ON = ("bollard up", "bollard chat")
READS = ("bollard conversations", "bollard approvals\n", "bollard runs", "bollard audit show", "cat ")


@dataclass
class Walker:
    """A user with three terminals. A variable exported in one of them is exported in all."""

    folder: Path
    environment: dict[str, str]
    terminal: Any
    port: str = field(default_factory=lambda: str(free_port()))
    running: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])

    def follow(self, block: Any) -> None:
        match block.language:
            case "console":
                for command, shown in self.terminal.commands_of(block.lines):
                    self._type(command, shown)
            case "json":
                (self.folder / _name(block)).write_text(block.text, encoding="utf-8")
            case "python":
                (self.folder / _name(block)).write_text(block.text, encoding="utf-8")
                done = subprocess.run(
                    [sys.executable, _name(block)], cwd=self.folder, capture_output=True, text=True, check=True
                )
                assert done.stdout == "records changed: 1\n"
            case other:
                pytest.fail(f"nobody follows a block of {other}")

    def _type(self, command: str, shown: list[str]) -> None:
        if command.startswith(GOES_ON):
            self._leave_running(command, shown)
            return
        pattern, until = self.terminal.pattern_of(shown or [""]), time.monotonic() + SETTLE_S
        while True:
            code, printed = self.terminal.run(self._line(command), self.folder, self.environment)
            fits = pattern.fullmatch(printed.replace(self.port, DOCUMENTED_PORT)) is not None
            if (code == 0 and fits) or not f"{command}\n".startswith(READS) or time.monotonic() > until:
                break
        assert code == 0, f"`{command}` ended with {code}:\n{printed}"
        assert fits, f"`{command}` printed\n{printed}\nbut the page shows\n" + "\n".join(shown)

    def _leave_running(self, command: str, shown: list[str]) -> None:
        begun = self.terminal.begin(self._line(command), self.folder, self.environment)
        self.running.append((command, begun))
        last = [line for line in shown if line != "…"][-1]
        mark = max(last.split("…"), key=len).encode()
        assert begun.until(mark, SETTLE_S), f"`{command}` printed\n{begun.printed}"
        printed = begun.printed.replace(self.port, DOCUMENTED_PORT)
        assert self.terminal.pattern_of([*shown, "…"]).match(printed), f"`{command}` printed\n{printed}"

    def _line(self, command: str) -> str:
        """Earlier exports are set; new exports and assignments are kept."""
        kept = self.folder.parent / "exported"
        known = f"set -a; [ ! -e '{kept}' ] || . '{kept}'; {command.replace(DOCUMENTED_PORT, self.port)}\n"
        return known if command.startswith(GOES_ON) else f"{known}code=$?; export -p >'{kept}'; exit $code"

    def close(self) -> None:
        for _, begun in self.running:
            begun.interrupt()
        for _, begun in self.running:
            begun.end(timeout_s=SETTLE_S)


def _name(block: Any) -> str:
    return block.lines[0].removeprefix("# ")


@pytest.fixture
def walker(reader_directory: Path, reader_environment: dict[str, str], terminal: Any) -> Iterator[Walker]:
    walker = Walker(folder=reader_directory, environment=reader_environment, terminal=terminal)
    try:
        yield walker
    finally:
        walker.close()


def test_a_call_approved_after_a_kill_of_its_host_is_made_once(pages: dict[str, Any], walker: Walker) -> None:
    page = pages[PAGE]
    for block in page.blocks:
        walker.follow(block)
    typed = "\n".join(line for block in page.blocks for line in block.lines)
    for step in ("mcp add", "mcp consent", "agents save", "chat", "kill -9", "approvals allow", "audit verify"):
        assert step in typed, f"the walk lost its step {step}"
    said = next(begun for command, begun in walker.running if command.startswith("bollard chat"))
    assert said.until(b"still waiting for approval and runs once allowed", SETTLE_S), said.printed
    sent = (walker.folder / "walk/mcp/default/letters/sent.txt").read_text(encoding="utf-8")
    assert len(re.findall("see you at nine", sent)) == 1
