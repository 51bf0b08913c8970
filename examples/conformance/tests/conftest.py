"""Puts the plugin's own folder on the path, as a worker does."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
