"""One real host for all scenarios, with each kind of store."""

from collections.abc import Iterator

import pytest
from tests.local_agent.host_kit import own_database
from tests.parity.hosts import RealHost, started


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.full)])
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHost]:
    data = tmp_path_factory.mktemp("parity") / "data"
    if request.param == "sqlite":
        with started(data, "") as real:
            yield real
        return
    with own_database() as database, started(data, database) as real:
        yield real
