"""The launcher of a worker starts an interpreter of its own: what it imports delays every worker."""

import subprocess
import sys
from pathlib import Path

import bollard

SLOW = {"dataclasses", "inspect", "pathlib", "platform", "socket", "urllib.parse"}


def test_the_launcher_imports_no_slow_module() -> None:
    root = Path(bollard.__file__).resolve().parents[1]
    start = f"import sys; sys.path.insert(0, {str(root)!r})"
    code = f"{start}; from bollard.confine import launch_process; print(*sys.modules)"
    line = [sys.executable, "-I", "-S", "-c", code]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stdout.split())
    assert "bollard.confine.view" in loaded
    assert not SLOW & loaded
