"""A provider on loopback, and backends that are closed behind a test."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.host.models.provider import Provider, provider

from bollard.host.models.backends import open_backend
from bollard.host.models.boundary import ModelBackend
from bollard.host.models.calls import provider_addresses

Open = Callable[..., ModelBackend]


@pytest.fixture
async def there() -> AsyncIterator[Provider]:
    async with provider() as it:
        yield it


@pytest.fixture
async def opened(there: Provider) -> AsyncIterator[Open]:
    """A backend to that provider; the arguments change the model's description."""
    backends: list[ModelBackend] = []

    def begin(**changes: Any) -> ModelBackend:
        backends.append(open_backend(there.spec(**changes), provider_addresses))
        return backends[-1]

    yield begin
    for backend in backends:
        await backend.close()
