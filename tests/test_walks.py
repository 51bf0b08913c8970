"""The walks of new users, in a real terminal, from a clean clone."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

WALKS = Path(__file__).parents[1] / "scripts" / "walks"


@pytest.mark.full
def test_every_walk_of_a_new_user_reaches_its_end() -> None:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    done = subprocess.run([sys.executable, WALKS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == [
        "first-visitor",
        "approver",
        "runner-developer",
        "worker-author",
        "troubled",
        "operator",
        "integrator",
        "chinese-speaker",
    ]


def test_an_unknown_walk_is_refused_with_the_names_of_all() -> None:
    done = subprocess.run([sys.executable, WALKS, "nowhere"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "first-visitor, approver" in done.stderr
