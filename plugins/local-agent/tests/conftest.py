"""Puts the plugin's folder on the path, as the worker does."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
