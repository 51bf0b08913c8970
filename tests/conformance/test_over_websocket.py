"""The way of a remote runtime carries the protocol as an inherited socket does: the kit's cases hold over it."""

import sys
from pathlib import Path

import pytest

from bollard.conformance import CASES, run_kit

pytestmark = pytest.mark.full


ROOT = Path(__file__).parents[2]


async def test_the_python_worker_passes_every_case_over_a_websocket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    command = [sys.executable, "-m", "tests.conformance.over_websocket", str(ROOT / "examples/conformance")]
    report = await run_kit(command, report=lambda _: None)
    assert report.passed, "\n".join(f"{case.name}: {case.detail}" for case in report.failures)
    assert len(report.cases) == len(CASES)
