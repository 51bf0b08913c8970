"""Fixtures of the packages and clients that other people use."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import RunningHost


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).parents[2]


@pytest.fixture(scope="session")
def client_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHost]:
    """A host for generated clients."""
    running = RunningHost(tmp_path_factory.mktemp("clients"))
    try:
        yield running.start()
    finally:
        running.close()
