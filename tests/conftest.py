"""Fixtures that every suite uses."""

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes is the machine's affair: on a busy one, a property holds all the same.
settings.register_profile("bollard", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("bollard")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
