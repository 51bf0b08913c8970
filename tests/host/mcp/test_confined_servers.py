"""Confined servers over stdio, at each level of this machine: they work, and reach nothing that nobody agreed to."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.host.mcp.conftest import PROGRAMS, OpenServers, Servers
from tests.ports import free_port
from tests.replacement import replace

from bollard.confine.probe import machine_findings
from bollard.confine.worker_level import WorkerLevel, choose_level
from bollard.host.egress.addresses import parse_allow
from bollard.host.egress.client import EgressClient
from bollard.host.errors import InvalidRequest
from bollard.host.log.records import data_of
from bollard.host.mcp import folder_watch


class Names:
    """Every name is on loopback."""

    async def addresses(self, host: str) -> list[Any]:
        return [ip_address("127.0.0.1")]


@pytest.fixture(scope="module", params=["strongest", "landlock"])
def level(request: pytest.FixtureRequest) -> WorkerLevel:
    findings = machine_findings()
    found = choose_level("best", findings if request.param == "strongest" else replace(findings, view=False))
    if found.name == "none":
        pytest.skip(f"this machine confines nothing so: {found.problem}")
    return found


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root that the operator allows."""
    return tmp_path_factory.mktemp("root")


@pytest.fixture(scope="module")
async def confined(open_servers: OpenServers, level: WorkerLevel, root: Path) -> AsyncIterator[Servers]:
    egress = EgressClient(parse_allow(("127.0.0.1",)), resolver=Names())
    servers = await open_servers(egress, level, [root])
    (servers.data / "keys").mkdir(exist_ok=True)
    (servers.data / "keys" / "host.key").write_text("canary")
    yield servers
    for kept in servers.source.repository.all("w"):
        await servers.source.repository.delete("w", kept.id, by="ann", edited=None)


@pytest.fixture(scope="module")
async def page() -> AsyncIterator[int]:
    """A web page of the machine."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\npage")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def tried(servers: Servers, name: str, *words: Any) -> str:
    found = await servers.call(f"mcp:{name}/try", {"words": [*words]})
    return str(found.content[0]["text"])


async def curious(servers: Servers, name: str, *mode: str, **fields: Any) -> None:
    await servers.ready(name, "curious", *mode, **fields)


@pytest.mark.smoke
async def test_a_server_reads_no_key_and_reaches_no_one(confined: Servers, page: int) -> None:
    await curious(confined, "nosy")
    key = confined.data / "keys" / "host.key"
    refusals = ("FileNotFoundError", "PermissionError")
    assert (await tried(confined, "nosy", "read", str(key))).startswith(refusals)
    assert (await tried(confined, "nosy", "read", f"/proc/{os.getpid()}/environ")).startswith(refusals)
    assert (await tried(confined, "nosy", "list", str(confined.data / "mcp"))) in ('["w"]', *_listed(confined))
    assert (await tried(confined, "nosy", "write", str(PROGRAMS / "curious.py"))).startswith(("OSError", *refusals))
    assert (await tried(confined, "nosy", "connect", page)).startswith(("ConnectionRefusedError", "PermissionError"))
    assert (await tried(confined, "nosy", "kill", os.getpid())).startswith(("ProcessLookupError", "PermissionError"))
    assert (await tried(confined, "nosy", "tunnel", "page.example:443")) == (
        '"403 sandbox.network of the MCP server nosy does not admit page.example:443"'
    )
    refused = await tried(confined, "nosy", "fetch", "https://page.example/")
    assert "403 sandbox.network of the MCP server nosy does not admit page.example:443" in refused
    assert "HTTP Error 403" in await tried(confined, "nosy", "fetch", f"http://page.example:{page}/")


def _listed(servers: Servers) -> list[str]:
    path = servers.data / "mcp"
    return [f"PermissionError: [Errno 13] Permission denied: '{path}'"]


async def test_a_server_has_its_folder_its_variables_and_its_secrets(confined: Servers) -> None:
    confined.secrets.known["token"] = "s3cret"
    await curious(confined, "own", env={"TOKEN": "secret:token", "MODE": "quiet"})
    seen = json.loads(await tried(confined, "own", "see"))
    folder = confined.data / "mcp" / "w" / "own"
    assert (seen["cwd"], seen["env"]["HOME"]) == (str(folder), str(folder))
    assert (seen["env"]["TOKEN"], seen["env"]["MODE"]) == ("s3cret", "quiet")
    assert seen["fds"] == [0, 1, 2]
    assert await tried(confined, "own", "write", "note.txt") == "7"
    assert (folder / "note.txt").read_text() == "written"
    await curious(confined, "other")
    assert (await tried(confined, "other", "read", str(folder / "note.txt"))).startswith(
        ("FileNotFoundError", "PermissionError")
    )


async def test_consent_opens_names_and_folders_below_a_root(confined: Servers, page: int, root: Path) -> None:
    for name in ("read", "write"):
        (root / name).mkdir(exist_ok=True)
        (root / name / "file").write_text(name)
    network, place = [f"page.example:{page}"], f"http://page.example:{page}/"
    sandbox = {"network": network, "read": [f"{root}/read"], "write": [f"{root}/write"], "memory_mib": 256}
    await curious(confined, "trusted", sandbox=sandbox)
    assert await tried(confined, "trusted", "fetch", place) == '"page"'
    assert await tried(confined, "trusted", "read", f"{root}/read/file") == '"read"'
    assert (await tried(confined, "trusted", "write", f"{root}/read/file")).startswith(("OSError", "PermissionError"))
    assert await tried(confined, "trusted", "write", f"{root}/write/file") == "7"
    assert (root / "write" / "file").read_text() == "written"


async def test_a_path_below_no_root_is_refused_when_saved(confined: Servers, tmp_path: Path) -> None:
    for command in ({"read": [str(tmp_path)]}, {"write": [str(confined.data)]}):
        with pytest.raises(InvalidRequest, match="below none of the roots") as refused:
            await confined.add("greedy", "curious", sandbox=command)
        assert refused.value.details["field"] == "mcp_server.sandbox"
    with pytest.raises(InvalidRequest, match="only for a command"):
        await confined.add("greedy", url="http://127.0.0.1:9/mcp", sandbox={"network": "open"})


async def test_a_server_without_its_network_names_the_missing_permission(confined: Servers, page: int) -> None:
    connection = await confined.add("lonely", "curious", "fetches", f"http://page.example:{page}/")
    await confined.until(lambda: bool(connection.problem))
    assert str(connection.problem).startswith(f"it may not reach page.example:{page}: ")
    assert "sandbox.network" in connection.hint
    assert connection.problem.details["problem_type"] == "mcp.network_missing"
    assert f"[host] sandbox.network of this server does not admit page.example:{page}" in connection.log
    await confined.source.repository.delete("w", "lonely", by="ann", edited=None)


async def test_a_server_without_its_file_names_the_missing_permission(confined: Servers, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    connection = await confined.add("blind", "curious", "reads", str(tmp_path / "folder"))
    await confined.until(lambda: bool(connection.problem))
    assert str(connection.problem).startswith(f"its sandbox does not have {tmp_path}/folder: ")
    assert "`sandbox.read`" in connection.hint
    assert "sandbox_roots" in connection.hint
    await confined.source.repository.delete("w", "blind", by="ann", edited=None)


async def test_a_file_that_the_saved_server_names_is_readable_below_a_root_alone(
    confined: Servers, root: Path, tmp_path: Path
) -> None:
    named, key = root / "named.json", confined.data / "keys" / "host.key"
    named.write_text("named")
    private, link = tmp_path / "id_ed25519", root / "link.json"
    private.write_text("canary")
    link.unlink(missing_ok=True)
    link.symlink_to(private)
    words = (str(key), str(private), "/etc/shadow", str(link))
    await curious(confined, "named", "plain", *words, env={"FILE": str(named), "OTHER": str(private)})
    assert await tried(confined, "named", "read", str(named)) == '"named"'
    for word in words:
        assert (await tried(confined, "named", "read", word)).startswith(("FileNotFoundError", "PermissionError"))
    connection = confined.source.connection("w", "named")
    assert connection is not None
    hint = f"[host] sandbox.read of this server does not have {private}; sandbox_roots must allow it"
    assert hint in connection.log


async def test_a_saved_variable_runs_nothing_in_the_launcher(confined: Servers, tmp_path: Path) -> None:
    """The loader of a program obeys `LD_*` before its first instruction: here it would write a file of the host."""
    trace = tmp_path / "trace"
    await curious(confined, "loaded", env={"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": str(trace), "PYTHONSTARTUP": "x"})
    assert await asyncio.to_thread(os.listdir, tmp_path) == []
    seen = json.loads(await tried(confined, "loaded", "see"))
    assert seen["env"]["LD_DEBUG_OUTPUT"] == str(trace)


async def test_another_process_without_the_token_gets_nothing_from_a_proxy_on_loopback(
    confined: Servers, level: WorkerLevel, page: int
) -> None:
    await curious(confined, "guarded", sandbox={"network": [f"page.example:{page}"]})
    seen = json.loads(await tried(confined, "guarded", "see"))
    proxy = urlsplit(seen["env"]["HTTP_PROXY"])
    assert (proxy.password is None) == level.namespaces, "only a listener that others can reach needs a token"
    if level.namespaces:
        return
    request = f"GET http://page.example:{page}/ HTTP/1.1\r\nHost: page.example:{page}\r\n\r\n"
    reader, writer = await asyncio.open_connection(proxy.hostname, proxy.port)
    writer.write(request.encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 407 ")
    writer.close()
    assert await tried(confined, "guarded", "fetch", f"http://page.example:{page}/") == '"page"'


async def test_a_link_in_its_own_folder_leads_nowhere(confined: Servers, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("canary")
    folder = confined.data / "mcp" / "w" / "linked"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config").unlink(missing_ok=True)
    (folder / "config").symlink_to(target)
    await curious(confined, "linked", "plain", str(folder / "config"))
    assert (await tried(confined, "linked", "read", "config")).startswith(("FileNotFoundError", "PermissionError"))


async def test_a_server_that_uses_up_its_memory_ends_with_the_reason(confined: Servers, level: WorkerLevel) -> None:
    if "memory" not in level.controllers:
        pytest.skip("nothing on this machine limits the memory of a group")
    await curious(confined, "hungry", sandbox={"memory_mib": 64})
    connection = confined.source.connection("w", "hungry")
    assert connection is not None
    told: list[str] = []
    hoarding = asyncio.create_task(tried(confined, "hungry", "hoard"))

    def explained() -> bool:
        if connection.problem:
            told.append(str(connection.problem))
        return bool(told)

    await confined.until(explained)
    assert told[0].startswith("its memory was used up")
    hoarding.cancel()
    await asyncio.wait([hoarding])


async def test_a_server_that_fills_its_folder_ends_and_does_not_start_until_there_is_room(
    confined: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_watch, "FOLDER_FILES", 50)
    await curious(confined, "messy")
    connection = confined.source.connection("w", "messy")
    assert connection is not None
    seen: list[str] = []

    def full() -> bool:
        seen.append(str(connection.problem and connection.problem.details["problem_type"]))
        return "mcp.folder_full" in seen

    littering = asyncio.create_task(tried(confined, "messy", "litter", 60))
    await confined.until(full)
    await asyncio.wait([littering])
    assert "remove files" in connection.hint
    folder = confined.data / "mcp" / "w" / "messy"
    for file in folder.glob("litter-*"):
        file.unlink()
    await confined.until(lambda: connection.status == "connected")


async def test_a_removed_server_ends_by_sigterm_or_by_force_with_its_folder_left(confined: Servers) -> None:
    mark = str(confined.data / "mark")
    for name in ("tidy", "stubborn"):
        await curious(confined, name, name, mark)
    assert len(_running(mark)) == 2
    for name in ("tidy", "stubborn"):
        await confined.source.repository.delete("w", name, by="ann", edited=None)
    await confined.until(lambda: not _running(mark))
    assert (confined.data / "mcp" / "w" / "tidy" / "ended").read_text() == "by SIGTERM"


def _running(mark: str) -> list[str]:
    """The processes with this argument."""
    found: list[str] = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if mark.encode() in line.read_bytes().split(b"\0"):
                found.append(line.parent.name)
    return found


async def test_refused_and_admitted_connections_are_in_the_log(confined: Servers, page: int) -> None:
    await curious(confined, "logged", sandbox={"network": [f"page.example:{page}"]})
    await tried(confined, "logged", "fetch", f"http://page.example:{page}/")
    await tried(confined, "logged", "tunnel", "elsewhere.example:443")

    def recorded() -> set[tuple[str, str]]:
        rows = [data_of(row) for row in confined.store.records(0, 10_000) if row.type == "worker.connection"]
        return {(str(row["host"]), str(row["outcome"])) for row in rows if row["plugin"] == "mcp:logged"}

    await confined.until(lambda: recorded() == {("page.example", "closed"), ("elsewhere.example", "refused")})


async def test_the_bridge_is_confined_and_starts_no_program(confined: Servers) -> None:
    await curious(confined, "served")
    of_bridge = Path(f"/proc/{confined.source.bridge.pid}")
    status = await asyncio.to_thread((of_bridge / "status").read_text)
    assert "Seccomp:\t2" in status
    assert "NoNewPrivs:\t1" in status
    children = of_bridge / "task" / of_bridge.name / "children"
    assert await asyncio.to_thread(children.read_text) == ""


async def test_a_server_of_the_sdk_works_confined(confined: Servers) -> None:
    await confined.ready("friendly", "friendly")
    assert confined.offered("friendly")


async def test_a_confined_bridge_reaches_a_server_over_http(confined: Servers, http_server: str) -> None:
    await confined.ready("near", url=http_server)
    answer = await confined.call("mcp:near/add", {"a": 1, "b": 2})
    assert not answer.is_error
    refused = await confined.add("closed", url=f"http://127.0.0.1:{free_port()}/mcp")
    await confined.until(lambda: bool(refused.problem))
    assert str(refused.problem) == "no connection: Connection refused"
