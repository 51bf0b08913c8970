"""Servers that are dead, slow, huge or lying: each affects only its own callers."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from tests.host.mcp.conftest import OpenServers, Servers
from tests.tables import for_each

from bollard.host.egress.client import EgressClient
from bollard.host.errors import Conflict, InvalidRequest, OutcomeUnknown, SettingsError, ToolFailed
from bollard.host.mcp.bridge import McpBridge
from bollard.host.mcp.consent import ConsentMcpTools
from bollard.host.mcp.limits import LOG_LINES
from bollard.wire.bridge_frames import OpenHttp


async def good(servers: Servers) -> None:
    """A server that means well still answers."""
    if servers.source.connection("w", "good") is None:
        await servers.ready("good", "hostile", "plain")
    await servers.until(lambda: servers.offered("good") == ["act"])
    assert (await servers.call("mcp:good/act")).content == ({"type": "text", "text": "acted"},)


async def test_only_tools_with_valid_names_and_schemas_are_accepted(servers: Servers) -> None:
    connection = await servers.add("odd", "hostile", "odd")
    await servers.until(lambda: connection.connected)
    assert [tool.name for tool in connection.tools if tool.state == "new"] == ["act"]
    problems = {tool.name: tool.problem.sentence for tool in connection.tools if tool.state == "unusable"}
    expected = {
        "": "characters",
        "a b": "characters",
        "../../etc/passwd": "characters",
        "\\u202etxt.exe": "characters",
        "x" * 64: "more than 64",
        "twice": "2 tools with this name",
        "wrong_type": "not valid",
        "deep": "nested deeper",
        "elsewhere": "not valid",
        "wordy": "description",
        "pattern": "not valid",
        "heavy": "bytes",
    }
    assert problems.keys() == expected.keys()
    for name, words in expected.items():
        assert words in problems[name], name
    absent = servers.source.absent("w")
    assert "2 tools with this name" in absent["mcp:odd/twice"].sentence
    yes = {"tools": [{"name": "twice", "definition_sha256": "0" * 64}]}
    with pytest.raises(Conflict, match="cannot be used"):
        await servers.source.consent("w", "odd", ConsentMcpTools.from_wire(yes), "ann")


async def test_a_list_of_thousands_of_tools_is_truncated(servers: Servers) -> None:
    connection = await servers.add("many", "hostile", "many")
    await servers.until(lambda: connection.connected)
    assert len(connection.tools) == 512


async def test_a_server_that_dies_in_a_call_leaves_an_unknown_outcome_and_is_restarted(servers: Servers) -> None:
    await servers.ready("dies", "hostile", "dies")
    with pytest.raises(OutcomeUnknown, match="ended with code 3"):
        await servers.call("mcp:dies/act")
    await servers.until(lambda: servers.offered("dies") == ["act"])
    await good(servers)


async def test_an_answer_of_100_mib_ends_that_connection_only(servers: Servers) -> None:
    await servers.ready("huge", "hostile", "huge")
    with pytest.raises(OutcomeUnknown, match="more than 4194304 bytes"):
        await servers.call("mcp:huge/act")
    await good(servers)


async def test_an_oversized_answer_closes_the_connection_at_once(servers: Servers) -> None:
    connection = await servers.ready("large", "hostile", "huge")
    act = servers.capability("mcp:large/act")
    with pytest.raises(OutcomeUnknown, match="more than 4194304 bytes"):
        await servers.call("mcp:large/act")
    assert connection.status == "waiting"
    assert "more than 4194304 bytes" in connection.problem.sentence
    later = [servers.call("mcp:large/act", capability=act) for _ in range(12)]
    outcomes = await asyncio.gather(*later, return_exceptions=True)
    assert [type(each) for each in outcomes] == [ToolFailed] * 12  # none of them was sent


async def test_an_endlessly_nested_answer_fails_its_call_at_once(servers: Servers) -> None:
    connection = await servers.ready("bottomless", "hostile", "bottomless")
    for arguments in ({}, {"last": True}):
        answer = await servers.call("mcp:bottomless/act", arguments, timeout_s=10.0)
        assert answer.is_error
        assert "cannot be read" in str(answer.content[0]["text"])
    assert connection.connected


async def test_an_unreadable_answer_fails_only_its_own_call(servers: Servers) -> None:
    await servers.ready("named", "hostile", "bottomless")
    for arguments in ({}, {"last": True}):
        held, unreadable = await asyncio.gather(
            servers.call("mcp:named/act", {"hold": True}, timeout_s=10.0),
            servers.call("mcp:named/act", arguments, timeout_s=10.0),
        )
        assert (held.is_error, held.content[0]["text"]) == (False, "acted")
        assert unreadable.is_error
        assert "cannot be read" in str(unreadable.content[0]["text"])


async def test_a_silent_server_costs_a_call_no_more_than_its_timeout(servers: Servers) -> None:
    await servers.ready("silent", "hostile", "silent")
    waiting = asyncio.create_task(servers.call("mcp:silent/act"))
    with pytest.raises(OutcomeUnknown, match="did not answer in time"):
        await servers.call("mcp:silent/act", timeout_s=0.2)
    await good(servers)
    assert not waiting.done()
    waiting.cancel()


async def test_a_flood_of_progress_is_throttled(servers: Servers) -> None:
    await servers.ready("flood", "hostile", "flood")
    told: list[float] = []
    answer = await servers.call("mcp:flood/act", progress=lambda done, *_: told.append(done))
    assert answer.content == ({"type": "text", "text": "done"},)
    assert 1 <= len(told) < 500
    assert told == sorted(told)


@pytest.mark.parametrize("mode", ["lying", "nested"])
async def test_an_answer_of_a_wrong_shape_is_a_tool_error(servers: Servers, mode: str) -> None:
    await servers.ready(mode, "hostile", mode)
    answer = await servers.call(f"mcp:{mode}/act")
    assert answer.is_error
    assert answer.structured is None
    assert "answer" in str(answer.content[0]["text"])


async def test_the_output_of_a_server_is_limited_and_harmless(servers: Servers) -> None:
    connection = await servers.ready("noisy", "hostile", "noisy")
    assert (await servers.call("mcp:noisy/act")).content == ({"type": "text", "text": "acted"},)
    assert connection.log[0] == "line 0"
    assert len(connection.log) <= LOG_LINES


async def test_an_unreachable_or_silent_server_is_absent_with_the_reason(servers: Servers, tmp_path: Path) -> None:
    nowhere = await servers.add("nowhere", command="no-such-program-anywhere")
    brief = await servers.add("brief", command="false")
    refused = await servers.add("refused", url="http://127.0.0.1:9/mcp")
    off = await servers.add("off", "hostile", "plain", enabled=False)
    unset = await servers.add("unset", "hostile", "plain", env={"API_KEY": "secret:unset"})
    deaf = await servers.add("deaf", "hostile", "deaf", str(tmp_path / "begun"))
    await servers.until((tmp_path / "begun").exists)
    assert deaf.status == "connecting"
    assert "it is connecting" in servers.source.absent("w")["mcp:deaf/"].sentence
    shape = await servers.add("misshapen", "hostile", "misshapen")
    await servers.until(lambda: all(each.problem for each in (nowhere, brief, refused, unset, shape)))
    absent = servers.source.absent("w")
    assert "the program does not exist" in absent["mcp:nowhere/"].sentence
    assert "its process ended with code 1" in absent["mcp:brief/"].sentence
    assert "Connection refused" in absent["mcp:refused/"].sentence
    assert "is disabled" in absent["mcp:off/"].sentence
    assert "tools.1.inputSchema.type: Input should be 'object'" in absent["mcp:misshapen/"].sentence
    assert "there is no secret unset" in absent["mcp:unset/"].sentence
    assert off.status == "disabled"
    with pytest.raises(Conflict, match="is disabled"):
        await servers.source.refresh("w", "off")
    await good(servers)
    for name in ("nowhere", "brief", "refused", "unset", "deaf", "misshapen"):
        await servers.source.repository.delete("w", name, by="ann", edited=None)
    assert not {f"mcp:{name}/" for name in ("nowhere", "deaf")} & servers.source.absent("w").keys()


async def test_the_bridge_runs_only_with_a_server_and_its_children_end_with_it(
    open_servers: OpenServers, tmp_path: Path
) -> None:
    servers = await open_servers()
    for kept in servers.source.repository.all("w"):
        await servers.source.repository.delete("w", kept.id, by="ann", edited=None)
    await servers.until(lambda: servers.source.bridge.pid is None)
    connection = await servers.ready("silent", "hostile", "silent")
    first = servers.source.bridge.pid
    assert first is not None
    child = next(iter(servers.source.bridge.groups))
    call = asyncio.create_task(servers.call("mcp:silent/act"))
    await asyncio.sleep(0)
    os.kill(first, signal.SIGKILL)
    with pytest.raises(OutcomeUnknown, match="bridge process"):
        await call
    await servers.until(lambda: not Path(f"/proc/{child}").exists())
    await servers.until(lambda: servers.offered("silent") == ["act"])
    assert servers.source.bridge.pid not in {None, first}
    (child,) = servers.source.bridge.groups
    servers.source.close_workspace("w")
    await servers.until(lambda: servers.source.bridge.pid is None)
    await servers.until(lambda: not Path(f"/proc/{child}").exists())
    with pytest.raises(ToolFailed, match="was removed"):
        await servers.call("mcp:silent/act", capability=connection.tools[0].capability)


async def test_a_host_without_the_sdk_names_the_package_to_install() -> None:
    order = OpenHttp(link=1, url="http://127.0.0.1:9/mcp", headers={}, protocol="auto", start_s=1.0)
    with pytest.raises(SettingsError, match="not installed") as refused:
        await McpBridge(EgressClient(), "no_sdk_of_this_name").open(order, Unheard())
    assert "make setup" in refused.value.hint


class Unheard:
    """A listener that must hear nothing."""

    def __getattr__(self, name: str) -> None:
        raise AssertionError(name)


@for_each(
    ("fields", "where"),
    [
        ({}, "command"),
        ({"command": "x", "url": "https://example.org"}, "command"),
        ({"command": "x", "env": {"GITHUB_TOKEN": "ghp_abcdef"}}, "env.GITHUB_TOKEN"),
        ({"url": "https://example.org", "headers": {"Authorization": "Bearer abc"}}, "headers.Authorization"),
        ({"url": "https://example.org", "headers": {"Host": "other"}}, "headers.Host"),
        ({"url": "https://example.org", "env": {"A": "b"}}, "env"),
        ({"command": "x", "headers": {"A": "b"}}, "headers"),
        ({"url": "http://example.org/mcp"}, "url"),
        ({"url": "http://169.254.169.254/mcp"}, "url"),
        ({"url": "https://user:pass@example.org/mcp"}, "url"),
        ({"url": "ftp://example.org"}, "url"),
        ({"url": "https://example.org/mcp?apiKey=abc"}, "url"),
        ({"command": "x", "env": {"SIGNING_KEY": "abc"}}, "env.SIGNING_KEY"),
        ({"url": "https://[::1"}, "url"),
        ({"command": "x", "allow": ["a b"]}, "allow.0"),
        ({"command": "x", "timeout_s": 0}, "timeout_s"),
        ({"command": "x", "agreed": {}}, "agreed"),
    ],
)
async def test_an_invalid_server_or_a_visible_secret_is_refused(
    servers: Servers, fields: dict[str, object], where: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await servers.add("wrong", **fields)
    assert refused.value.details["field"] == f"mcp_server.{where}"
    assert refused.value.hint
