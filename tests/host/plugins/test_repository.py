"""Saved plugins: consent is on disk before code runs, and a failed change changes nothing."""

import asyncio
import io
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.doubles.manual_clock import ManualClock
from tests.host.plugins.conftest import files_of, zip_of

from bollard.host.agents.agent import AgentRegistry
from bollard.host.agents.routing import BindingRegistry
from bollard.host.errors import (
    Conflict,
    HostError,
    InvalidRequest,
    NotFound,
    Overloaded,
    PluginUnusable,
    StorageUnavailable,
)
from bollard.host.limits import PLUGIN_UPLOADS, PLUGIN_UPLOADS_OF_WORKSPACE
from bollard.host.log.journal import Journal
from bollard.host.plugins.code_store import CodeStore
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.installation import Installed, consent_for
from bollard.host.plugins.repository import PluginRepository
from bollard.host.plugins.uploads import folder_of_package
from bollard.host.plugins.workbench import Workbench
from bollard.host.store.store import Store

pytestmark = pytest.mark.full


class House:
    """A keeper with everything around it but HTTP."""

    def __init__(self, journal: Journal, store: Store, clock: ManualClock, data: Path) -> None:
        self.store = store
        self.agents = AgentRegistry()
        self.shelf = CodeStore(data / "plugins")
        self.fleet = PluginFleet(
            clock=clock, host_version="test", agents=self.agents, runners={}, first_workspace="default"
        )
        self.fleet.open_workspace("second")
        self.repository = PluginRepository(
            fleet=self.fleet,
            code_store=self.shelf,
            journal=journal,
            store=store,
            clock=clock,
            agents=self.agents,
            bindings=BindingRegistry(),
        )
        self.bench = Workbench(fleet=self.fleet, repository=self.repository, journal=journal, clock=clock)

    async def install(self, workspace: str = "default", code: bytes | None = None, **more: Any) -> Installed:
        files = files_of(**more) if code is None else {**files_of(**more), "runner.py": code}
        async with self.repository.uploads.archive(pieces(zip_of(files)), "default") as shelved:
            consent = consent_for(shelved.digest, shelved.described)
            return await self.repository.install(workspace, shelved, by="user:ann", consent=consent, source="zip")

    async def develop(self, **more: Any) -> None:
        async with self.repository.uploads.archive(pieces(zip_of(files_of(**more))), "default") as shelved:
            consent = consent_for(shelved.digest, shelved.described)
            await self.bench.put("default", shelved, by="user:ann", consent=consent)

    def records(self) -> list[tuple[str, Any]]:
        return [(row.type, msgspec.json.decode(row.data or b"{}")) for row in self.store.records(0, 100)]

    def shelved(self) -> set[str]:
        return {path.name for path in (self.shelf._folder).iterdir() if path.name != ".incoming"}


async def turns() -> None:
    """Let everything happen whose time has come."""
    for _ in range(3):
        await asyncio.sleep(0)


async def pieces(data: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(data), 100):
        yield data[at : at + 100]


@pytest.fixture
async def house(
    open_journal: Callable[..., Journal], store: Store, clock: ManualClock, tmp_path: Path
) -> AsyncIterator[House]:
    made = House(open_journal(store), store, clock, tmp_path)
    await made.repository.load()
    yield made
    made.bench.close()
    await made.fleet.stop()


async def test_consent_is_on_disk_before_the_code_runs(house: House) -> None:
    started: list[list[str]] = []
    prove = house.fleet.prove

    async def watched(fitting: Any) -> None:
        started.append([kind for kind, _ in house.records()])
        await prove(fitting)

    house.fleet.prove = watched  # type: ignore[method-assign]
    installed = await house.install(permissions="{history: [page]}")
    assert started == [["plugin.consented"]]
    kinds = dict(house.records())
    assert list(kinds) == ["plugin.consented", "policy.changed", "plugin.installed"]
    assert kinds["plugin.consented"]["asks"]["runners"] == {"default": ["history.page"]}
    assert kinds["plugin.installed"]["by"] == "user:ann"
    assert kinds["plugin.installed"]["digest"] == installed.current.digest
    row = house.store.policies("plugin", "default")[0]
    assert Installed.from_wire(msgspec.json.decode(row.body), "default", row.revision) == installed


async def test_a_workspace_has_its_own_plugins(house: House) -> None:
    one = await house.install()
    two = await house.install("second")
    assert one.current.digest == two.current.digest
    assert house.shelved() == {one.current.digest}
    await house.repository.remove("default", "acme/parrot", "user:ann")
    assert house.shelved() == {two.current.digest}
    assert house.repository.find("second", "acme/parrot") == two
    await house.repository.remove("second", "acme/parrot", "user:ann")
    await asyncio.gather(*house.fleet._retiring.values())
    await turns()
    await asyncio.gather(*house.repository._sweeps)
    assert house.shelved() == set()
    assert [kind for kind, _ in house.records()][-2:] == ["policy.changed", "plugin.removed"]


@pytest.mark.parametrize("other", [{"name": "parr0t"}, {"author": "evil"}])
async def test_of_two_concurrent_installs_with_similar_names_one_is_refused(
    house: House, other: dict[str, str]
) -> None:
    outcomes = await asyncio.gather(house.install(), house.install(**other), return_exceptions=True)
    taken = [each for each in outcomes if isinstance(each, Installed)]
    refused = [each for each in outcomes if isinstance(each, Conflict)]
    assert (len(taken), len(refused)) == (1, 1)
    assert house.shelved() == {taken[0].current.digest}


async def test_a_store_failure_leaves_no_plugin_in_use(house: House, monkeypatch: Any) -> None:
    async def failing(*_: Any, **__: Any) -> None:
        raise StorageUnavailable("no", reason="test", hint="later")

    monkeypatch.setattr("bollard.host.log.saved_resources.SavedChanges.write", failing)
    with pytest.raises(StorageUnavailable):
        await house.install()
    assert house.repository.of("default") == []
    assert house.fleet.pids == []
    await house.repository.uploads.sweep()
    assert house.shelved() == set()


async def test_a_plugin_that_asks_for_a_denied_path_is_recorded_and_not_installed(house: House) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await house.install(sandbox="{read: [/srv/keys]}")
    with pytest.raises(InvalidRequest):
        await house.develop(sandbox="{write: [/srv/keys]}")
    assert refused.value.reason == "plugin_path_denied"
    data = {"plugin": "acme/parrot", "by": "user:ann", "path": "/srv/keys"}
    assert house.records() == [("plugin.refused", data)] * 2
    assert house.repository.of("default") == []


async def test_code_that_fails_to_start_is_not_stored(house: House) -> None:
    with pytest.raises(PluginUnusable):
        await house.install(code=b"raise RuntimeError('no')")
    assert house.shelved() == set()
    assert [kind for kind, _ in house.records()] == ["plugin.consented"]


@pytest.mark.smoke
async def test_installed_plugins_survive_a_restart(
    house: House, open_journal: Callable[..., Journal], store: Store, clock: ManualClock, tmp_path: Path
) -> None:
    installed = await house.install()
    await house.repository.change("default", "acme/parrot", by="x", workers=2)
    await house.fleet.stop()
    again = House(open_journal(store, "i2"), store, clock, tmp_path)
    await again.repository.load()
    try:
        found = again.repository.get("default", "acme/parrot")
        assert (found.current, found.workers, found.revision) == (installed.current, 2, 2)
        fitting = again.fleet.find("default", "acme/parrot")
        assert fitting is not None
        assert fitting.pool.status == "idle"
        again.fleet.start()
        await fitting.pool.wait_ready(20)
        assert again.agents.get("parrot") is not None
    finally:
        await again.fleet.stop()


async def test_a_development_version_ends_after_its_developer_disconnects(house: House, loop_time: Any) -> None:
    installed = await house.install(says="one")
    await house.develop(says="dev")
    dev = house.fleet.find("default", "acme/parrot")
    assert dev is not None
    assert dev.origin == "dev"
    loop_time.advance(50)
    await turns()
    house.bench.touch("default", "acme/parrot")
    loop_time.advance(50)
    await turns()
    assert house.fleet.find("default", "acme/parrot") is dev
    loop_time.advance(20)
    await turns()
    back = house.fleet.find("default", "acme/parrot")
    assert back is not None
    assert (back.origin, back.source.digest) == ("installed", installed.current.digest)
    with pytest.raises(NotFound):
        house.bench.touch("default", "acme/parrot")


async def test_an_oversized_upload_is_aborted(house: House, monkeypatch: Any) -> None:
    monkeypatch.setattr("bollard.host.plugins.uploads.PLUGIN_ARCHIVE_BYTES", 1000)
    with pytest.raises(HostError) as caught:
        async with house.repository.uploads.archive(pieces(bytes(5000)), "default"):
            raise AssertionError("it was taken")
    assert caught.value.code == "payload_too_large"
    assert list((house.shelf._folder / ".incoming").iterdir()) == []


async def test_concurrent_uploads_are_limited(house: House) -> None:
    hold = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b"P"
        await hold.wait()

    async def upload(workspace: str) -> None:
        async with house.repository.uploads.archive(slow(), workspace):
            raise AssertionError("it was taken")

    async def uploaded(count: int) -> None:
        while len(list((house.shelf._folder / ".incoming").iterdir())) < count:
            await asyncio.to_thread(lambda: None)

    tasks = [asyncio.create_task(upload("slow")) for _ in range(PLUGIN_UPLOADS_OF_WORKSPACE)]
    await uploaded(len(tasks))
    with pytest.raises(Overloaded):
        await upload("slow")
    tasks += [asyncio.create_task(upload(f"w{number}")) for number in range(PLUGIN_UPLOADS - len(tasks))]
    await uploaded(PLUGIN_UPLOADS)
    with pytest.raises(Overloaded):
        await upload("another")
    hold.set()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(each).__name__ for each in done} == {"InvalidRequest"}
    assert list((house.shelf._folder / ".incoming").iterdir()) == []
    assert (await house.install()).plugin_id == "acme/parrot"


def test_unreadable_code_is_not_run(shelf: CodeStore) -> None:
    shelved = shelf.add_archive(io.BytesIO(zip_of(files_of())))
    shelved.path.chmod(0o700)
    (shelved.path / "runner.py").unlink()
    (shelved.path / "runner.py").symlink_to("/proc/self/mem")
    with pytest.raises(HostError, match="cannot be read"):
        shelf.find(shelved.digest)


def test_a_package_of_the_environment_is_found_without_importing_it(tmp_path: Path, monkeypatch: Any) -> None:
    package = tmp_path / "acme_parrot" / "plugin"
    package.mkdir(parents=True)
    (tmp_path / "acme_parrot" / "__init__.py").write_text("raise RuntimeError('it was imported')")
    for name, content in files_of().items():
        (package / name).write_bytes(content)
    info = tmp_path / "acme_parrot-1.2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-parrot\nVersion: 1.2.0\n")
    (info / "entry_points.txt").write_text("[bollard.plugins]\nparrot = acme_parrot.plugin\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    folder, said = folder_of_package("acme-parrot")
    assert (folder, said) == (package, "acme-parrot==1.2.0")
    assert "acme_parrot" not in sys.modules
    shelf = CodeStore(tmp_path / "shelf")
    shelf.open()
    assert shelf.add_folder(folder).digest == shelf.add_archive(io.BytesIO(zip_of(files_of()))).digest
    (info / "entry_points.txt").write_text("[bollard.plugins]\na = acme_parrot.plugin\nb = other\n")
    with pytest.raises(HostError, match="2 entry points"):
        folder_of_package("acme-parrot")
    (info / "entry_points.txt").write_text("[bollard.plugins]\na = ../../etc\n")
    with pytest.raises(HostError, match="is not a module"):
        folder_of_package("acme-parrot")
