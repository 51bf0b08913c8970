"""Ctrl-C before a command has begun its work: while its modules are loaded."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import BOLLARD, PATIENCE_S, environment

INTERRUPTED = """
import runpy, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            signal.raise_signal(signal.SIGINT)

_, module, *sys.argv = sys.argv
sys.meta_path.insert(0, Interrupting())
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("bollard.cli.app", "runs"),
        ("typer", "up"),
        ("bollard.cli.language", "runs"),
        ("bollard.cli.operate.up", "up"),
        ("bollard.host.app", "up"),
    ],
)
def test_an_interrupt_during_imports_ends_the_command_silently(tmp_path: Path, module: str, command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module, BOLLARD, command],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "")
