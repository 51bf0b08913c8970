"""Plugins whose worker is a separate program: started without a shell from the pinned folder, within the consent."""

import io
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock
from tests.host.plugins.conftest import zip_of
from tests.tables import for_each

from bollard.host.agents.agent import AgentRegistry
from bollard.host.errors import ConsentNeeded, InvalidRequest, PluginUnusable
from bollard.host.plugins.code_store import CodeStore, StoredCode
from bollard.host.plugins.description import RequestedAccess, describe
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.installation import check_consent, compare
from bollard.host.plugins.placement import PoolPlacement
from bollard.host.workers.boundary import PluginSource

TINY = (Path(__file__).parents[2] / "doubles" / "tiny_worker.py").read_bytes()
MANIFEST = """
apiVersion: bollard/v1
kind: Plugin
metadata: {author: acme, name: NAME, version: 1.0.0, label: {en_US: Tiny}}
spec:
  command: COMMAND
  runners:
    - {name: default, label: {en_US: Tiny}}
"""


def program_of(command: str = "[bin/worker, --loud]", name: str = "tiny") -> dict[str, bytes]:
    """The files of a plugin with its own program."""
    return {"manifest.yaml": MANIFEST.replace("COMMAND", command).replace("NAME", name).encode(), "bin/worker": TINY}


class Yard:
    """A fleet, and the plugins put in it."""

    def __init__(self, shelf: CodeStore) -> None:
        self._shelf = shelf
        self.fleet = PluginFleet(
            clock=ManualClock(), host_version="test", agents=AgentRegistry(), runners={}, first_workspace="default"
        )

    def store(self, files: dict[str, bytes]) -> StoredCode:
        return self._shelf.add_archive(io.BytesIO(zip_of(files)))

    async def prove(self, files: dict[str, bytes]) -> PoolPlacement:
        code = self.store(files)
        said = code.described
        source = PluginSource(
            name=said.name,
            path=code.path,
            plugin_id=said.plugin_id,
            digest=code.digest,
            env=said.access.env,
            command=said.access.command,
        )
        placement = self.fleet.build_placement("default", source, "installed", access=said.access)
        await self.fleet.prove(placement)
        self.fleet.place(placement)
        return placement


@pytest.fixture
async def yard(shelf: CodeStore) -> AsyncIterator[Yard]:
    made = Yard(shelf)
    yield made
    await made.fleet.stop()


async def test_a_program_is_started_in_its_folder_without_a_shell(yard: Yard) -> None:
    placement = await yard.prove(program_of("[bin/worker, '$HOME; ls']"))
    [pid] = placement.pool.pids
    process = Path(f"/proc/{pid}")
    assert Path(os.readlink(process / "cwd")) == placement.source.path
    assert (process / "cmdline").read_bytes().split(b"\0")[-2] == b"$HOME; ls"
    environment = dict(each.split(b"=", 1) for each in (process / "environ").read_bytes().split(b"\0") if each)
    assert [name for name in environment if name.startswith(b"BOLLARD_")] == [b"BOLLARD_CHANNEL_FD"]
    assert placement.offered == {"plugin:acme/tiny/default"}


async def test_the_digest_is_that_of_the_files_even_if_the_program_reports_none(yard: Yard) -> None:
    placement = await yard.prove(program_of())
    assert placement.digest == placement.source.digest is not None


async def test_only_the_program_in_the_store_is_executable(yard: Yard) -> None:
    folder = yard.store({**program_of(), "bin/other": b"#!/bin/sh\n"}).path
    assert os.access(folder / "bin/worker", os.X_OK)
    assert not (folder / "bin/worker").stat().st_mode & 0o222
    assert not (folder / "bin/other").stat().st_mode & 0o111


@for_each(
    ("command", "problem"),
    [
        ("[no-such-program-anywhere]", "no-such-program-anywhere is not on the PATH"),
        ("[bin/nothing]", "bin/nothing is not an executable file in the plugin's folder"),
        ("[worker]", "worker is not on the PATH"),
        ("[python3, -c, 'import sys; sys.exit(\"no luck\")']", "no luck"),
    ],
)
async def test_a_program_that_fails_to_start_is_named(shelf: CodeStore, command: str, problem: str) -> None:
    yard = Yard(shelf)
    with pytest.raises(PluginUnusable, match=problem):
        await yard.prove(program_of(command))
    await yard.fleet.stop()


async def test_a_program_of_another_plugin_is_refused(yard: Yard) -> None:
    with pytest.raises(PluginUnusable, match="the worker reports acme/tiny, but acme/other was started"):
        await yard.prove(program_of(name="other"))


async def test_the_manifest_limits_a_program_of_the_settings(yard: Yard, tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    for name, content in program_of().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.replace(b"name: default", b"name: elsewhere"))
        path.chmod(0o755)
    declared = describe(folder)
    yard.fleet.share(PluginSource(name="tiny", path=folder), "settings", "acme/tiny", access=declared.access)
    [placement] = yard.fleet.placements
    assert await placement.pool.prove() is None
    assert placement.offered == frozenset()
    assert "runner default has no consent" in [each.sentence for each in placement.problems]
    assert placement.digest is not None


def test_the_consent_covers_the_command(shelf: CodeStore) -> None:
    before = shelf.add_archive(io.BytesIO(zip_of(program_of("[node, worker.mjs]")))).described.access
    assert before.to_wire()["command"] == ["node", "worker.mjs"]
    assert RequestedAccess.from_wire(before.to_wire()) == before
    code = shelf.add_archive(io.BytesIO(zip_of(program_of("[node, 'other file.mjs']"))))
    change = compare(before, code.described.access)
    assert (change.added, change.removed) == (("command node 'other file.mjs'",), ("command node worker.mjs",))
    with pytest.raises(ConsentNeeded):
        check_consent(code.digest, code.described, before, None)


def test_an_access_saved_without_commands_is_read() -> None:
    old = {"runners": {"default": []}, "env": [], "tools": {}}
    assert RequestedAccess.from_wire(old).to_wire() == old


@for_each("command", ["[/bin/sh, -c, ls]", "[../worker]", "[bin/../../worker]", "[]", "worker"])
def test_a_command_outside_the_folder_is_refused(write_folder: Any, command: str) -> None:
    with pytest.raises(InvalidRequest, match=r"spec\.command"):
        describe(write_folder(files=program_of(command)))


def test_entries_belong_to_python_plugins(write_folder: Any) -> None:
    files = program_of()
    entry = files["manifest.yaml"] + b'    - {name: second, label: {en_US: S}, entry: "runner:second"}\n'
    assert [name for name, _ in describe(write_folder(files={"manifest.yaml": entry})).access.runners] == ["default"]
    python = files["manifest.yaml"].replace(b"  command: [bin/worker, --loud]\n", b"")
    with pytest.raises(InvalidRequest, match="no usable runner"):
        describe(write_folder(files={"manifest.yaml": python}))
