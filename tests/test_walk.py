"""The script that counts the code of a request."""

import re
import subprocess

import pytest
from tests.conftest import HERE

pytestmark = pytest.mark.full

FIGURES = re.compile(r"^(.+?) +(\d+) +(\d+) +(\d+) +(\d+)$", re.MULTILINE)


def test_a_walk_prints_its_figures_without_the_python_of_the_tree() -> None:
    walked = subprocess.run(
        ["/usr/bin/env", "python3", "scripts/walk"], cwd=HERE.parent, capture_output=True, text=True, check=False
    )
    assert walked.returncode == 0, walked.stderr
    switches = {title: int(last) for title, *_, last in FIGURES.findall(walked.stdout)}
    assert len(switches) == 6, walked.stdout
    assert all(switches.values()), walked.stdout
    ends = [count for title, count in switches.items() if title.startswith("the end of a run")]
    assert len(ends) == 2
    assert max(ends) <= 20, walked.stdout
