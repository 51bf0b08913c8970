"""A hostile program at every level of confinement that this machine offers: what a level promises to stop, it stops."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.confine.hostile.probes import LEVELS, MAY_BE_ABSENT, NEVER_UNCONFINED, PROMISES, ROWS
from tests.confine.hostile.run import HERE
from tests.confine.hostile.table import Outcomes, measure, render, written

import bollard.confine
from bollard.confine.cgroup_places import CONTROLLERS, find_places

SLICE = (
    "read_database",
    "read_other_plugin",
    "write_own_plugin",
    "memory_of_process",
    "trace_process",
    "steal_descriptor",
    "signal_sibling",
    "tcp_service",
    "tcp_fast_open",
    "abstract_socket",
    "io_uring",
    "user_namespace",
    "group_of_host",
)
"""What the quick tier tries."""
NOBODY = 65534
WITHOUT_GROUPS = ("full+alone", "namespaces+alone", "landlock+alone")


def broken_promises(level: str, outcomes: Outcomes) -> dict[str, str]:
    """The probes that were not stopped although the level promises it, and those that could not be tried."""
    wanted = level.partition("+")[0]
    return {
        probe: outcome
        for probe, outcome in outcomes.items()
        if outcome not in ("stopped", "reached") or (wanted in PROMISES[probe] and outcome != "stopped")
    }


def outcomes_at(level: str, probes: Sequence[str] = tuple(PROMISES), **options: object) -> Outcomes:
    found = measure(level, probes, **options)  # pyright: ignore[reportArgumentType]
    if found is None:
        pytest.skip(f"this machine lacks the level {level}")
    assert set(found) == set(probes)
    return found


@pytest.fixture(scope="session")
def ordinary_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The start of a command line that runs Python modules of ours as another user, with files of that user."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("the tests run as an ordinary user already, or cannot become one")
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all"]
    folder = Path("/tmp") / f"hostile-user-{os.getpid()}"
    code = Path(bollard.confine.__file__).parents[1]
    shutil.copytree(code / "confine", folder / "bollard" / "confine", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(code / "__init__.py", folder / "bollard")
    shutil.copytree(HERE, folder / "tests/confine/hostile", ignore=shutil.ignore_patterns("__pycache__"))
    folder.chmod(0o755)
    try:
        for python in (os.path.realpath(sys.executable), "/usr/bin/python3"):
            with_files = [*user, "env", "-C", "/", f"PYTHONPATH={folder}", "PYTHONDONTWRITEBYTECODE=1", python, "-P"]
            version = [*with_files, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
            if subprocess.run(version, capture_output=True, check=False).returncode == 0:
                yield with_files
                return
        pytest.skip("no Python of this machine can be run by other users")
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def delegated(ordinary_user: list[str]) -> Iterator[list[str]]:
    """The same, for a user to whom a group of each controller was given."""
    places = find_places()
    if not set(CONTROLLERS) <= places.keys():
        pytest.skip("no groups can be made here")
    folders = [place / f"delegated-{os.getpid()}" for place in dict.fromkeys(places.values())]
    for folder in folders:
        folder.mkdir()
        for path in (folder, *folder.glob("cgroup.*"), *folder.glob("tasks")):
            os.chown(path, NOBODY, NOBODY)
    enter = "".join(f"echo $$ > {folder}/cgroup.procs; " for folder in folders)
    yield ["sh", "-c", f'{enter} exec "$@"', "sh", *ordinary_user]
    for folder in folders:
        folder.rmdir()


@pytest.mark.parametrize("level", LEVELS)
def test_a_slice_of_the_hostile_suite_is_stopped_at_every_level(level: str):
    assert broken_promises(level, outcomes_at(level, SLICE)) == {}


@pytest.mark.full
@pytest.mark.parametrize("network", [True, False], ids=["network", "no network"])
@pytest.mark.parametrize("level", [*LEVELS, *WITHOUT_GROUPS])
def test_a_hostile_program_reaches_nothing_that_its_level_promises_to_stop(level: str, network: bool):
    assert broken_promises(level, outcomes_at(level, network=network)) == {}


@pytest.mark.full
@pytest.mark.parametrize("level", WITHOUT_GROUPS)
def test_promises_hold_for_a_host_of_an_ordinary_user(level: str, ordinary_user: list[str]):
    assert broken_promises(level, outcomes_at(level, user=ordinary_user)) == {}


def test_an_ordinary_user_with_a_group_of_its_own_has_the_full_level(delegated: list[str]):
    outcomes = outcomes_at("full", SLICE, user=delegated)
    assert broken_promises("full", outcomes) == {}


@pytest.mark.full
@pytest.mark.parametrize("level", LEVELS)
def test_promises_hold_for_an_ordinary_user_with_a_group_of_its_own(level: str, delegated: list[str]):
    assert broken_promises(level, outcomes_at(level, user=delegated)) == {}


@pytest.mark.full
@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser may do everything")
def test_every_probe_succeeds_without_confinement():
    """A probe that always fails would prove nothing."""
    tried = [probe for probe in PROMISES if probe not in NEVER_UNCONFINED]
    outcomes = outcomes_at("none", tried, network=False)
    assert [probe for probe in tried if outcomes[probe] != "reached" and probe not in MAY_BE_ABSENT] == []


@pytest.mark.full
def test_the_table_of_the_page_is_that_of_a_run():
    assert written() == render({level: outcomes_at(level) for level in LEVELS})


def test_the_catalogue_has_at_least_sixty_probes_and_one_row_for_each():
    assert len(PROMISES) >= 60
    assert sum(len(row.probes) for row in ROWS) == len(PROMISES)
    assert set(PROMISES) >= MAY_BE_ABSENT | NEVER_UNCONFINED
