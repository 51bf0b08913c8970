"""Fixtures of every suite, and which tests belong to which tier."""

import signal
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes is the machine's affair: on a busy one, a property holds all the same.
settings.register_profile("bollard", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("bollard")

# A shell without job control starts background commands with SIGINT ignored, and programs inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

HERE = Path(__file__).parent
QUICK_ON_POSTGRES = (
    "host/store/",
    "host/log/",
    "host/engine/",
    "host/approvals/",
    "host/delivery/",
    "host/identity/",
    "host/events/test_steering.py",
    "host/run_api/test_history.py",
    "host/http/test_events.py",
    "local_agent/test_acceptance_people.py",
)
"""The store contract, and one module for each surface. All other tests on PostgreSQL are in `make test-all`."""
FULL_UNLESS_SMOKE = ("chaos/",)
"""Folders of slow tests: those that are marked `smoke` are in the quick tier too."""
LONG = ("simulation/", "chaos/", "cli/", "docs/", "conformance/")
"""Files that take long come first: one at the end would leave the other processes idle."""
FLAKY: dict[str, dict[str, str]] = tomllib.loads((HERE / "flaky.toml").read_text(encoding="utf-8"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not _place(item).startswith(LONG))
    for item in items:
        if _is_full(item):
            item.add_marker(pytest.mark.full)
        if entry := FLAKY.get(item.nodeid.split("[")[0]):
            item.add_marker(
                pytest.mark.xfail(reason=f"flaky until {entry['expires']}: {entry['reason']}", strict=False)
            )


def _is_full(item: pytest.Item) -> bool:
    place = _place(item)
    return place.startswith(FULL_UNLESS_SMOKE) or (_is_on_postgres(item) and not place.startswith(QUICK_ON_POSTGRES))


def _is_on_postgres(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    return call is not None and any(str(value).startswith("postgres") for value in call.params.values())


def _place(item: pytest.Item) -> str:
    return item.path.relative_to(HERE).as_posix()
