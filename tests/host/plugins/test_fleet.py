"""The fleet with real processes: workspaces that share no worker, versions that follow one another, names that only the
connection proves."""

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.doubles.manual_clock import ManualClock
from tests.host.plugins.conftest import files_of, zip_of
from tests.replacement import replace

from bollard.host.agents.agent import AgentRegistry
from bollard.host.errors import PluginUnusable
from bollard.host.plugins.code_store import CodeStore, StoredCode
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.placement import PoolPlacement
from bollard.host.workers.boundary import PluginSource

pytestmark = pytest.mark.full

READY_S = 60.0


class Fleet:
    """A fleet, and its notifications."""

    def __init__(self, clock: ManualClock, shelf: CodeStore) -> None:
        self.agents = AgentRegistry()
        self.runners: dict[tuple[str, str], Any] = {}
        self.shelf = shelf
        self.fleet = PluginFleet(
            clock=clock, host_version="test", agents=self.agents, runners=self.runners, first_workspace="default"
        )

    def shelved(self, **more: Any) -> StoredCode:
        return self.shelf.add_archive(io.BytesIO(zip_of(files_of(**more))))

    def fit(self, shelved: StoredCode, workspace: str = "default", **more: Any) -> PoolPlacement:
        said = shelved.described
        fields = {"plugin_id": said.plugin_id, "digest": shelved.digest, "env": said.access.env, **more}
        source = PluginSource(name=said.name, path=shelved.path, **fields)
        return self.fleet.build_placement(workspace, source, "installed", access=said.access, version=said.version)

    async def install(self, workspace: str = "default", **more: Any) -> PoolPlacement:
        self.fleet.open_workspace(workspace)
        fitting = self.fit(self.shelved(**more), workspace)
        await self.fleet.prove(fitting)
        self.fleet.place(fitting)
        return fitting

    async def ready(self, fitting: PoolPlacement) -> int:
        slot = await fitting.pool.wait_ready(READY_S)
        return slot.pid


@pytest.fixture
async def yard(clock: ManualClock, shelf: CodeStore) -> AsyncIterator[Fleet]:
    made = Fleet(clock, shelf)
    yield made
    await made.fleet.stop()
    assert made.fleet.pids == []


@pytest.mark.smoke
@pytest.mark.requirement("P11-54")
async def test_two_workspaces_never_share_a_worker(yard: Fleet) -> None:
    one = await yard.install("default")
    two = await yard.install("second")
    assert one.source.digest == two.source.digest
    assert await yard.ready(one) != await yard.ready(two)
    assert yard.fleet.pools["default", "acme/parrot"] is one.pool
    assert yard.fleet.pools["second", "acme/parrot"] is two.pool
    assert yard.agents.get("parrot", "second") is not None
    yard.fleet.remove("second", "acme/parrot", "installed")
    assert yard.agents.get("parrot", "second") is None
    assert yard.agents.get("parrot", "default") is not None


async def test_a_shared_plugin_is_available_everywhere_and_has_workers_on_use(yard: Fleet, write_folder: Any) -> None:
    yard.fleet.share(PluginSource(name="parrot", path=write_folder()), "settings", "acme/parrot")
    yard.fleet.open_workspace("early")
    yard.fleet.start()
    home = yard.fleet.find("default", "acme/parrot")
    assert home is not None
    await yard.ready(home)
    yard.fleet.open_workspace("late")
    for workspace in ("early", "late"):
        fitting = yard.fleet.find(workspace, "acme/parrot")
        assert fitting is not None
        assert (fitting.pool.status, fitting.pool.views) == ("idle", [])
        assert yard.agents.get("parrot", workspace) is not None
        assert (workspace, "plugin:acme/parrot/default") in yard.runners
    assert not yard.fleet.is_starting
    late = yard.fleet.find("late", "acme/parrot")
    assert late is not None
    assert await yard.ready(late) != await yard.ready(home)
    yard.fleet.close_workspace("late")
    assert yard.agents.get("parrot", "late") is None
    assert ("late", "plugin:acme/parrot/default") not in yard.runners


async def test_an_unused_pool_ends_when_it_is_replaced(yard: Fleet, gone: Callable[[int], None]) -> None:
    old = await yard.install(says="one")
    pid = await yard.ready(old)
    new = await yard.install(says="two", version="2.0.0")
    assert yard.fleet.pools["default", "acme/parrot"] is new.pool
    await asyncio.to_thread(gone, pid)
    assert yard.fleet.of("default") == [new]
    assert old.pool.status == "retired"


async def test_a_worker_with_another_plugin_id_or_digest_is_refused(yard: Fleet) -> None:
    shelved = yard.shelved()
    forged = yard.fit(shelved, plugin_id="bollard/echo")
    with pytest.raises(PluginUnusable, match="reports acme/parrot, but bollard/echo was started"):
        await yard.fleet.prove(forged)
    other = yard.fit(shelved, digest="0" * 64)
    with pytest.raises(PluginUnusable, match="was consented to"):
        await yard.fleet.prove(other)
    assert yard.fleet.pids == []
    assert yard.runners == {}


async def test_a_runner_that_requests_more_than_its_consent_is_not_used(yard: Fleet, shelf: CodeStore) -> None:
    """The declaration of a worker is a claim too: here the consent covers less than the manifest."""
    shelved = yard.shelved(permissions="{history: [page]}")
    less = yard.shelved(permissions="{}").described.access
    fitting = yard.fit(shelved)
    fitting.access = less
    with pytest.raises(PluginUnusable, match=r"history\.page without consent"):
        await yard.fleet.prove(fitting)


async def test_a_settings_plugin_cannot_take_the_name_of_another(yard: Fleet, write_folder: Any) -> None:
    real = PluginSource(name="parrot", path=write_folder("parrot"))
    forged = PluginSource(name="forger", path=write_folder("forger", files=files_of(name="parrot", says="forged")))
    yard.fleet.share(forged, "settings", None)
    yard.fleet.share(real, "settings", "acme/parrot")
    yard.fleet.start()
    for fitting in yard.fleet.of("default"):
        await yard.ready(fitting)
    assert yard.fleet.pools.keys() == {("default", "acme/parrot")}
    found = yard.fleet.find("default", "acme/parrot")
    assert found is not None
    assert found.source is real
    other = next(each for each in yard.fleet.of("default") if each.source is forged)
    assert "a second plugin has this name" in other.problems[0].sentence


async def test_a_log_survives_new_versions_of_its_plugin(yard: Fleet) -> None:
    await yard.install(says="one")
    first = yard.fleet.log_of("default", "acme/parrot")
    assert [line.text for line in first.last(10)] == ["a worker is ready: it offers default"]
    await yard.install(says="two", version="2.0.0")
    assert yard.fleet.log_of("default", "acme/parrot") is first
    assert len(first.last(10)) == 2
    assert yard.fleet.log_of("second", "acme/parrot").last(10) == []


async def test_a_covered_plugin_is_in_use_again_after_the_removal(yard: Fleet) -> None:
    installed = await yard.install(says="one")
    dev = yard.fleet.build_placement(
        "default",
        replace(yard.fit(yard.shelved(says="dev", name="parrot", version="2.0.0")).source),
        "dev",
        access=installed.access,
    )
    await yard.fleet.prove(dev)
    yard.fleet.place(dev)
    assert yard.fleet.pools["default", "acme/parrot"] is dev.pool
    yard.fleet.remove("default", "acme/parrot", "dev")
    assert yard.fleet.pools["default", "acme/parrot"] is installed.pool
    assert installed.pool.status == "ready"
    assert yard.agents.get("parrot") is not None


@pytest.fixture
def gone() -> Callable[[int], None]:
    def check(pid: int) -> None:
        try:
            psutil.Process(pid).wait(30)
        except psutil.NoSuchProcess:
            return

    return check


def test_a_copy_of_a_folder_follows_no_link(shelf: CodeStore, write_folder: Any, tmp_path: Path) -> None:
    folder = write_folder()
    plain = shelf.add_folder(folder)
    assert plain.digest == shelf.add_archive(io.BytesIO(zip_of(files_of()))).digest
    secret = tmp_path / "secret"
    secret.write_text("key")
    (folder / "innocent.txt").symlink_to(secret)
    with pytest.raises(Exception, match=r"innocent\.txt"):
        shelf.add_folder(folder)


def test_unreferenced_code_is_swept(shelf: CodeStore) -> None:
    kept = shelf.add_archive(io.BytesIO(zip_of(files_of())))
    other = shelf.add_archive(io.BytesIO(zip_of(files_of(says="other"))))
    shelf.sweep({kept.digest})
    assert kept.path.is_dir()
    assert not other.path.exists()


async def test_an_operator_learns_that_new_workers_run_other_code(yard: Fleet, write_folder: Any) -> None:
    folder = write_folder()
    yard.fleet.share(PluginSource(name="parrot", path=folder), "settings", "acme/parrot")
    yard.fleet.start()
    fitting = yard.fleet.find("default", "acme/parrot")
    assert fitting is not None
    await yard.ready(fitting)
    before = fitting.digest
    fitting.pool.restart()
    await yard.ready(fitting)
    assert (fitting.digest, [line.level for line in fitting.log.last(10)]) == (before, ["info", "info"])
    (folder / "words.py").write_text("")
    fitting.pool.restart()
    await yard.ready(fitting)
    assert fitting.digest != before
    assert f"the code changed from {before} to {fitting.digest}" in [line.text for line in fitting.log.last(10)]


async def test_a_plugin_proved_while_its_workspace_closes_is_not_used(yard: Fleet, gone: Callable[[int], None]) -> None:
    yard.fleet.open_workspace("late")
    fitting = yard.fit(yard.shelved(), "late")
    await yard.fleet.prove(fitting)
    pid = await yard.ready(fitting)
    yard.fleet.close_workspace("late")
    yard.fleet.place(fitting)
    assert (yard.fleet.of("late"), yard.agents.get("parrot", "late")) == ([], None)
    await asyncio.to_thread(gone, pid)
