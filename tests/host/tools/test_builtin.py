"""The built-in tools: their offer, and their effects on a real folder and real programs."""

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest
from tests.doubles.manual_clock import ManualClock

from bollard.confine.folder import Folder
from bollard.confine.limits import FOLDER_BYTES
from bollard.confine.paths import Wildcard
from bollard.confine.probe import Confinement, Findings, choose_confinement, machine_findings, probe
from bollard.host.capabilities.capability import Flow
from bollard.host.capabilities.sources import CallContext, CallOrder
from bollard.host.egress.destination import EgressResponse
from bollard.host.errors import NotFound, SandboxUnavailable, ToolFailed
from bollard.host.limits import FOUND_LINES, WORKSPACE_KEPT_S
from bollard.host.telemetry.counts import RunCounts
from bollard.host.tools.builtin import BuiltinTools, ProgramTools, probe_sandbox
from bollard.host.tools.definitions import DEFINITIONS
from bollard.host.tools.files import Workspaces, find_lines

pytestmark = pytest.mark.anyio

LEAVING = [
    "../outside.txt",
    "/etc/passwd",
    "link.txt",
    "folder-link/secret.txt",
    "..%2foutside.txt",
    "a\\..\\b",
    "nul\0byte",
    "dot.",
    "space ",
    "x" * 300,
    "..",
]


@pytest.fixture
def confined(tools: BuiltinTools) -> Confinement:
    """The level of this machine. Without one, the test checks the refusal."""
    confinement = tools.confinement
    if confinement.level is None:
        assert DEFINITIONS["exec"].id in tools.absent("default")
        pytest.skip(f"programs are refused on this machine: {confinement.problem}")
    return confinement


def everything(root: Path, but: Path | None = None) -> list[str]:
    return sorted(path.name for path in root.rglob("*") if but is None or but not in path.parents)


def test_every_tool_has_a_complete_definition():
    for name, each in DEFINITIONS.items():
        assert each.id == f"tool:builtin/{name}"
        assert each.input_schema["additionalProperties"] is False
        assert each.name == name
        assert len(each.description) < 400
    risky = {name for name, each in DEFINITIONS.items() if each.risk in ("high", "critical")}
    assert risky == {"exec", "schedule_create"}
    assert {name for name, each in DEFINITIONS.items() if each.approval == "always"} == {"schedule_create"}
    out = {name for name, each in DEFINITIONS.items() if each.flow.sends_out}
    assert out == {"http_fetch"}
    untrusted = {name for name, each in DEFINITIONS.items() if each.flow.brings_untrusted}
    assert untrusted == {"http_fetch", "artifact_read", "read_document"}
    pure = {name for name, each in DEFINITIONS.items() if each.effects == "none"}
    assert pure == {"now", "calculate", "artifact_read", "read_document", "read", "glob", "grep", "schedule_preview"}


def test_a_definition_does_not_change_with_the_host(tools: BuiltinTools):
    """Otherwise every update would need a consent. A change of a definition changes this digest on purpose."""
    assert DEFINITIONS["now"].version == "1"
    assert {each.source for each in tools.capabilities("default")} == {"builtin"}


def test_a_tool_without_its_part_of_the_host_is_absent_with_a_reason(tmp_path: Path):
    bare = BuiltinTools(clock=ManualClock(), workspaces=Workspaces(tmp_path))
    absent = bare.absent("default")
    ports = ("http_fetch", "artifact_read", "artifact_write", "read_document", "ask_user")
    ports = ("exec", *ports, "schedule_preview", "schedule_create")
    assert absent.keys() == {f"tool:builtin/{name}" for name in ports}
    assert all(absent.values())
    assert {each.id for each in bare.capabilities("default")} == {each.id for each in DEFINITIONS.values()} - set(
        absent
    )
    off = BuiltinTools(
        clock=ManualClock(), workspaces=Workspaces(tmp_path), confinement=choose_confinement("off", Findings())
    )
    assert "off" in off.absent("default")["tool:builtin/exec"].sentence


async def test_exec_is_refused_without_the_required_level(make_tools, make_call, home: Path):
    tools = make_tools(choose_confinement("bubblewrap", probe(wrapper=("/bin/false",))))
    call = make_call(tools)
    assert "tool:builtin/exec" not in {each.id for each in tools.capabilities("default")}
    with pytest.raises(SandboxUnavailable) as refused:
        await call("exec", command="echo > ran")
    assert refused.value.hint
    assert not any(name == "ran" for name in everything(home))


async def test_the_time_is_given_in_a_zone(say, call):
    assert await say("now") == "2027-01-15T08:00:00+00:00 (Friday, UTC)"
    assert (await call("now", timezone="../../etc/passwd")).is_error
    assert (await call("now", timezone="Middle/Earth")).is_error


async def test_numbers_are_calculated_and_invalid_expressions_are_errors(say, call):
    assert await say("calculate", expression="0.1 + 0.2") == "0.3"
    assert (await call("calculate", expression="__import__('os')")).is_error


async def test_files_are_written_read_edited_and_found(say, call):
    assert "written" in await say("write", path="src/a.py", content="one\ntwo\nthree\n")
    assert "replaced" in await say("write", path="src/a.py", content="one\ntwo\ntwo\n")
    assert await say("read", path="src/a.py") == "one\ntwo\ntwo"
    assert await say("read", path="src/a.py", offset=2, limit=1) == "two\n[lines 2 to 2 of 3]"
    twice = await call("edit", path="src/a.py", old="two", new="2")
    assert twice.is_error
    assert "2 times" in str(twice.content)
    await say("edit", path="src/a.py", old="two", new="2", replace_all=True)
    await say("edit", path="src/a.py", old="one", new="ONE")
    assert (await call("edit", path="src/a.py", old="absent", new="")).is_error
    assert await say("grep", pattern="2") == "src/a.py:2: 2\nsrc/a.py:3: 2"
    assert await say("grep", pattern="^o.e$", regex=True, ignore_case=True, glob="*.py") == "src/a.py:1: ONE"
    assert await say("glob", pattern="**/*.py") == "src/a.py"
    assert await say("glob", pattern="*", path="src") == "src/a.py"
    assert await say("glob", pattern="*.js") == "no matches"
    assert (await call("read", path="absent.txt")).is_error
    assert (await call("read", path="src")).is_error


async def test_each_run_has_its_own_files(say, call, home: Path):
    await say("write", path="a.txt", content="mine", run_id="run_1")
    assert (await call("read", path="a.txt", run_id="run_2")).is_error
    assert (home / "run_1").stat().st_mode & 0o077 == 0
    with pytest.raises(ToolFailed):
        await call("read", path="a.txt", run_id="../run_1")


async def test_no_path_of_any_tool_leaves_the_folder(call, home: Path, tmp_path: Path, artifacts):
    """F34 at the tools: each that takes a path, with each that leaves; one answer for all."""
    outside = tmp_path / "outside.txt"
    outside.write_text("canary")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "secret.txt").write_text("canary")
    await call("write", path="a.txt", content="mine")
    files = home / "run_1" / "files"
    (files / "link.txt").symlink_to(outside)
    (files / "folder-link").symlink_to(tmp_path / "secrets")
    artifacts.kept["art"] = ("a", "text/plain", b"content")
    before = everything(tmp_path, but=files)
    answers = set()
    for path in LEAVING:
        for name, arguments in (
            ("read", {"path": path}),
            ("write", {"path": path, "content": "x"}),
            ("edit", {"path": path, "old": "canary", "new": "x"}),
            ("glob", {"pattern": "**", "path": path}),
            ("grep", {"pattern": "canary", "path": path}),
            ("http_fetch", {"url": "https://example.org/", "save_as": path}),
            ("artifact_read", {"artifact_id": "art", "save_as": path}),
            ("artifact_write", {"name": "stolen", "path": path}),
        ):
            returned = await call(name, **arguments)
            assert returned.is_error, (name, path)
            answers.add(str(returned.content[0]["text"]))
    assert len(answers) == 1, answers
    assert (await call("glob", pattern="../*")).is_error
    assert "canary" not in str(await call("grep", pattern="canary"))
    assert everything(tmp_path, but=files) == before
    assert outside.read_text() == "canary"
    assert artifacts.kept.keys() == {"art"}


async def test_an_expensive_pattern_takes_linear_time(say, call):
    """F38: time grows with the line only. The limit is in processor time, and far beyond the usual."""
    await say("write", path="a.txt", content="a" * 100_000 + "!\n")
    begun = time.process_time()
    for pattern in (r"(a+)+$", r"(a|aa)+$", r"(a|a?)+$", r"(.*a){20}$", r"([a-z]+)*\d"):
        await say("grep", pattern=pattern, regex=True)
    await say("glob", pattern="*a" * 200)
    assert time.process_time() - begun < 10
    for pattern in (r"(?=a)", r"(a)\1", "[", "a{1000}{1000}{1000}"):
        assert (await call("grep", pattern=pattern, regex=True)).is_error


async def test_searches_have_a_limit_of_lines_and_skip_binary_files(say, home: Path):
    await say("write", path="many.txt", content="x\n" * (FOUND_LINES + 100))
    (home / "run_1" / "files" / "binary").write_bytes(b"\xff\xfex\n")
    found = await say("grep", pattern="x")
    assert len(found.splitlines()) == FOUND_LINES + 1
    assert "left out" in await say("grep", pattern="absent")


def test_a_cancelled_search_ends_with_its_current_file(tmp_path: Path):
    for name in "abc":
        (tmp_path / name).write_text("one line")
    given_up, seen = threading.Event(), list[str]()

    def matches(line: str) -> bool:
        given_up.set()
        seen.append(line)
        return False

    with Folder(tmp_path) as folder:
        find_lines(folder, matches, Wildcard("**"), ".", given_up)
    assert seen == ["one line"]


async def test_a_program_without_a_slot_in_time_is_not_started(tools: BuiltinTools, home: Path, confined: Confinement):
    counts = RunCounts()
    programs = ProgramTools(Workspaces(home), lambda: confined, at_once=1, counts=counts)

    def order(run_id: str, command: str, within_s: float) -> CallOrder:
        return CallOrder(
            call_id="call_1",
            capability=DEFINITIONS["exec"],
            arguments={"command": command},
            context=CallContext(run_id=run_id, workspace="default", agent_id="a"),
            timeout_s=within_s,
        )

    first = asyncio.create_task(programs.exec(order("run_1", "echo > started; sleep 600", 600)))
    async with asyncio.timeout(120):
        while not (home / "run_1/files/started").exists():  # noqa: ASYNC110 -- nothing else tells of it
            await asyncio.sleep(0.01)
        with pytest.raises(ToolFailed, match="too many programs"):
            await programs.exec(order("run_2", "echo > started", 2.1))
    assert (counts.programs_running, counts.programs) == (1, {})
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert not (home / "run_2/files/started").exists()
    for command in ("true", "false"):
        await programs.exec(order("run_3", command, 60))
    assert (counts.programs_running, counts.programs) == (0, {"cancelled": 1, "completed": 1, "failed": 1})


async def test_two_concurrent_edits_are_both_kept(say):
    await say("write", path="a.txt", content="one two")
    await asyncio.gather(say("edit", path="a.txt", old="one", new="1"), say("edit", path="a.txt", old="two", new="2"))
    assert await say("read", path="a.txt") == "1 2"


async def test_a_page_is_fetched_as_text_or_saved(say, call, pages):
    assert await say("http_fetch", url="https://example.org/") == "status 200\nwords"
    assert pages.asked[0].method == "GET"
    pages.answer = EgressResponse(url="u", status=200, headers=(("content-type", "image/png"),), body=b"\x89PNG")
    assert (await call("http_fetch", url="https://example.org/")).is_error
    await say("http_fetch", url="https://example.org/", save_as="a.png")
    assert await say("glob", pattern="*.png") == "a.png"


@pytest.mark.parametrize("charset", ["punycode", "idna", "undefined", "no-such", "utf-16", "windows-1252"])
async def test_a_page_cannot_choose_a_slow_parser(say, pages, charset: str):
    """Punycode takes a time that grows with the square of the length: this much of it takes minutes."""
    body = "words".encode(charset) if charset in ("utf-16", "windows-1252") else b"-" + b"99" * 400_000
    kind = ("content-type", f"text/plain; charset={charset}")
    pages.answer = EgressResponse(url="u", status=200, headers=(kind,), body=body)
    shown = (await say("http_fetch", url="https://example.org/")).partition("\n")[2]
    assert shown == ("words" if len(body) < 100 else body.decode())


async def test_artifacts_are_saved_as_files_and_files_as_artifacts(say, call, artifacts):
    artifacts.flow = Flow(reads_private=True, brings_untrusted=False, sends_out=False)
    artifacts.kept["art"] = ("a.txt", "text/plain", "grüße".encode())
    returned = await call("artifact_read", artifact_id="art")
    assert returned.content[0]["text"] == "grüße"
    assert returned.flow == artifacts.flow
    await say("artifact_read", artifact_id="art", save_as="in.txt")
    assert await say("read", path="in.txt") == "grüße"
    written = await call("artifact_write", name="b.txt", path="in.txt")
    assert written.artifact_refs == ({"artifact_id": "call_1", "name": "b.txt"},)
    assert artifacts.kept["call_1"] == ("b.txt", "text/plain", "grüße".encode())
    assert (await call("artifact_write", name="b.txt")).is_error
    assert (await call("artifact_write", name="b.txt", path="in.txt", content="x")).is_error
    with pytest.raises(NotFound):
        await call("artifact_read", artifact_id="absent")


async def test_a_user_is_asked(say):
    assert await say("ask_user", question="Which?", choices=["this", "that"]) == "this"
    assert await say("ask_user", question="Why?") == "you asked Why?"


async def test_a_command_runs_in_the_folder_of_its_run(say, call, confined: Confinement):
    await say("write", path="in.txt", content="given\n")
    said = await say("exec", command="cat in.txt; cat; echo $HOME | tail -c 6; echo made > out.txt", stdin="typed\n")
    assert said == "exit code 0\n--- stdout\ngiven\ntyped\nfiles"
    assert await say("read", path="out.txt") == "made"
    failed = await call("exec", command="echo no >&2; exit 3")
    assert failed.is_error
    assert failed.structured == {"exit_code": 3, "stopped": None, "stdout_bytes": 0, "stderr_bytes": 3}
    assert "python" in await say("exec", command="t=$(mktemp) && python3 -c 'print(\"python\")' > $t; cat $t || true")


async def test_a_command_that_takes_too_long_returns_its_output(call, confined: Confinement):
    returned = await call("exec", command="echo begun; sleep 600", within_s=5.0)
    assert returned.is_error
    assert returned.structured["stopped"] == "timeout"
    assert "stopped after 3 s" in str(returned.content)


async def test_a_full_folder_accepts_no_more_and_stops_its_program(call, say, confined: Confinement, home: Path):
    filling = "for n in 1 2 3 4; do fallocate -l 100M big$n || exit 9; done; sleep 600"
    returned = await call("exec", command=filling)
    assert returned.structured["stopped"] == "room", returned
    refused = await call("write", path="more.txt", content="x")
    assert refused.is_error
    assert "no room" in str(refused.content)
    assert (await call("exec", command="true")).is_error
    for large in (home / "run_1" / "files").iterdir():
        os.truncate(large, 0)
    assert FOLDER_BYTES == 256 << 20
    await say("write", path="more.txt", content="x")


async def test_unused_files_of_a_run_are_removed(say, tools: BuiltinTools, home: Path):
    for run_id in ("ended", "live", "recent"):
        await say("write", path="a/b.txt", content="x", run_id=run_id)
    long_ago = time.time() - WORKSPACE_KEPT_S - 10
    for run_id in ("ended", "live"):
        os.utime(home / run_id, (long_ago, long_ago))
    tools.sweep(lambda run_id: run_id == "live")
    assert sorted(os.listdir(home)) == ["live", "recent"]
    await say("write", path="a.txt", content="x", run_id="ended")  # a call that was allowed later still works


def test_a_host_with_readable_data_runs_no_programs(tmp_path: Path):
    """Files beneath the system's programs are readable to all of them, keys too."""
    for root, there in (
        (Path("/usr/share/bollard/workspaces"), False),
        (tmp_path, machine_confinement().level is not None),
    ):
        tools = BuiltinTools(clock=ManualClock(), workspaces=Workspaces(root), confinement=probe_sandbox("any", root))
        assert (tools.confinement.level is not None) == there
        assert ("tool:builtin/exec" in tools.absent("default")) != there


def machine_confinement() -> Confinement:
    return choose_confinement("any", machine_findings())


def test_the_machine_is_probed_once():
    assert machine_findings() is machine_findings()
