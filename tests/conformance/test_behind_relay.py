"""The kit against a worker behind the relay of a remote runtime: the relay changes nothing that the kit can see."""

import sys
from pathlib import Path

import pytest

from bollard.conformance import CASES, run_kit

pytestmark = pytest.mark.full

RELAY = Path(__file__).parents[1] / "doubles" / "relayed_worker.py"


async def test_a_relayed_worker_passes_every_case(node_worker: list[str]) -> None:
    report = await run_kit([sys.executable, str(RELAY), *node_worker], report=lambda _: None)
    assert not report.failures, [(case.name, case.detail) for case in report.failures]
    assert len(report.cases) == len(CASES)
