"""Attacks on what a program is shown: swapped links, hidden folders, sockets in folders, and the launcher itself."""

import asyncio
import socket
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.confine.hostile.run import Confined, Place, level_of, make_place, serve

from bollard.confine.launch_process import EXIT_BROKEN
from bollard.confine.probe import Findings

pytestmark = [pytest.mark.anyio, pytest.mark.full]
LEVELS = ("full", "namespaces", "landlock")
Prepare = Callable[..., Confined]
Run = Callable[..., Awaitable[list[str]]]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


@pytest.fixture
async def prepare(findings: Findings, place: Place) -> AsyncIterator[Prepare]:
    """Starts a piece of Python at a level."""
    started: list[Confined] = []

    def prepare(level_name: str, code: str, **needs: Any) -> Confined:
        level = level_of(level_name, findings)
        if level is None:
            pytest.skip(f"this machine lacks the level {level_name}")
        argv = [sys.executable, "-c", textwrap.dedent(code)]
        confined = Confined(level, place, argv, network=False, stdin=subprocess.DEVNULL, **needs)
        started.append(confined)
        return confined

    yield prepare
    for confined in started:
        await confined.close()


@pytest.fixture
def run(prepare: Prepare) -> Run:
    """The lines that the program prints."""

    async def run(level_name: str, code: str, **needs: Any) -> list[str]:
        confined = prepare(level_name, code, **needs)
        await confined.start()
        assert confined.process.stdout is not None
        return (await asyncio.to_thread(confined.process.stdout.read)).splitlines()

    return run


READ = """
    import os, sys
    for path in {paths!r}:
        try:
            with open(path) as file:
                print(file.read())
        except OSError as error:
            print(type(error).__name__)
"""
CONNECT = """
    import socket
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect({path!r})
            print(client.recv(100).decode())
    except OSError as error:
        print(type(error).__name__)
"""
REFUSED = ("PermissionError", "FileNotFoundError")


@pytest.mark.parametrize("level", LEVELS)
async def test_a_folder_that_became_a_link_is_not_opened(run: Run, place: Place, level: str) -> None:
    """Another worker with `write` above it swapped it after the host had checked it."""
    folder = place.root / "shared" / "photos"
    folder.mkdir(parents=True)
    (folder / "host.key").write_text("mine")
    code = READ.format(paths=[f"{folder}/host.key"])
    assert await run(level, code, exact_read=(str(folder),)) == ["mine"]
    folder.rename(place.root / "shared" / "moved")
    folder.symlink_to(place.data / "keys")
    assert await run(level, code, exact_read=(str(folder),)) == []
    assert await run(level, code, exact_write=(str(folder),)) == []


@pytest.mark.parametrize("level", LEVELS)
async def test_a_link_on_the_way_is_not_followed_either(prepare: Prepare, place: Place, level: str) -> None:
    (place.root / "shared").symlink_to(place.data)
    code = READ.format(paths=[f"{place.root}/shared/keys/host.key"])
    confined = prepare(level, code, exact_read=(f"{place.root}/shared/keys",))
    await confined.start()
    assert await asyncio.to_thread(confined.process.wait) == EXIT_BROKEN


@pytest.mark.parametrize("level", ["full", "namespaces"])
async def test_a_hidden_folder_stays_hidden_below_a_link_to_what_is_above_it(
    run: Run, place: Place, level: str
) -> None:
    """The link sorts after the hidden folder, and what it leads to is mounted before it all the same."""
    alias = place.root.parent / f"{place.root.name}zz"
    alias.symlink_to(place.root)
    (place.root / "open").write_text("open")
    paths = [str(place.root / "open"), str(place.data / "keys/host.key"), f"{alias}/data/keys/host.key"]
    code = READ.format(paths=paths)
    printed = await run(level, code, read=(str(alias),))
    assert printed == ["open", "FileNotFoundError", "FileNotFoundError"]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ["exact_read", "exact_write"])
async def test_a_socket_in_a_folder_with_consent_is_not_reached(
    run: Run, tmp_path_factory: pytest.TempPathFactory, level: str, kind: str
) -> None:
    folder = tmp_path_factory.mktemp("run")
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(f"{folder}/agent")
        service.listen()
        serve(service)
        assert await run(level, CONNECT.format(path=f"{folder}/agent"), **{kind: (str(folder),)}) == ["PermissionError"]


@pytest.mark.parametrize("level", ["full", "namespaces"])
async def test_no_variable_of_the_program_reaches_the_launcher(prepare: Prepare, place: Place, level: str) -> None:
    """`Confined` starts the launcher with what `Launch.environment` returns."""
    code = "import os, time; print(os.environ['PYTHONPATH'], flush=True); time.sleep(600)"
    confined = prepare(level, code)
    await confined.start()
    assert confined.process.stdout is not None
    assert (await asyncio.to_thread(confined.process.stdout.readline)).startswith(str(place.plugin))
    text = await asyncio.to_thread(Path(f"/proc/{confined.process.pid}/environ").read_text)
    assert {each.partition("=")[0] for each in text.split("\0") if each} == {"CHANNEL", "LANG"}


@pytest.mark.parametrize("level", ["full", "namespaces"])
async def test_the_waiting_processes_have_no_capabilities(prepare: Prepare, level: str) -> None:
    confined = prepare(level, "import time; print('ready', flush=True); time.sleep(600)")
    await confined.start()
    assert confined.process.stdout is not None
    assert await asyncio.to_thread(confined.process.stdout.readline) == "ready\n"
    outer = confined.process.pid
    children = await asyncio.to_thread(Path(f"/proc/{outer}/task/{outer}/children").read_text)
    for pid in (outer, int(children)):
        lines = (await asyncio.to_thread(Path(f"/proc/{pid}/status").read_text)).splitlines()
        found = {line.split()[0]: int(line.split()[1], 16) for line in lines if line.startswith("Cap")}
        assert found == dict.fromkeys(("CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"), 0)
