"""A plugin that needs more than its consent fails with an error that names the missing permission."""

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.host.http.conftest import Client, HostThread

from bollard.cli.language import load_text
from bollard.confine.probe import machine_findings
from bollard.host.settings import Settings
from bollard.host.workers.missing_permission import Lack, explain_lack

CURIOUS = """
    from bollard.sdk import RunContext, runner
    from bollard.sdk.http import Client

    @runner(name="default", label="Curious")
    async def curious(ctx: RunContext):
        what, _, where = (ctx.input.text or "").partition(" ")
        if what == "fetch":
            async with Client() as client:
                await client.get(where)
        with open(where, "r" if what == "read" else "w") as file:
            yield ctx.delta(file.name)
"""
EAGER = """
    from bollard.sdk import RunContext, runner

    with open("/srv/private/list") as file:
        WORDS = file.read()

    @runner(name="default", label="Eager")
    async def eager(ctx: RunContext):
        yield ctx.delta(WORDS)
"""
Start = Callable[..., Client]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    if not (machine_findings().seccomp and machine_findings().landlock):
        pytest.skip("this machine confines nothing")
    hosts: list[HostThread] = []

    def start(name: str, code: str) -> Client:
        path = tmp_path / f"{name}.py"
        path.write_text(textwrap.dedent(code), encoding="utf-8")
        settings = Settings(
            data=tmp_path / "data", plugins=(path,), builtin_plugins=False, port=0, grace_s=0.5, journal="thread"
        )
        hosts.append(HostThread(settings))
        return Client(hosts[-1].port, hosts[-1].token or "")

    yield start
    for host in hosts:
        host.stop()


@pytest.mark.full
def test_a_failed_run_names_the_permission_that_it_lacks(start: Start) -> None:
    host = start("curious", CURIOUS)
    host.until_health(lambda health: health["plugins"]["curious"]["status"] == "ready")

    def failed(text: str) -> str:
        run = host.ended(host.tell("curious", text).json["run_id"])
        assert run["status"] == "failed"
        return str(run["error"])

    assert "its sandbox does not have /srv/private/list (spec.sandbox.read; " in failed("read /srv/private/list")
    assert "its sandbox does not let it write /usr/written (spec.sandbox.write; " in failed("write /usr/written")
    assert "spec.sandbox.network of this plugin is none: " in failed("fetch https://api.example.org/")
    assert "spec.sandbox" not in failed("read /tmp/missing"), "a file of its own needs no permission"


@pytest.mark.full
def test_a_failed_start_names_the_permission_that_it_lacks(start: Start) -> None:
    host = start("eager", EAGER)
    health: Any = host.until_health(lambda health: health["plugins"]["eager"].get("problem"))
    problem = health["plugins"]["eager"]["problem"]
    assert "its sandbox does not have /srv/private/list (spec.sandbox.read; " in problem


@pytest.mark.parametrize("kind", ["places", "read", "write", "network"])
def test_each_missing_permission_has_a_chinese_text(kind: Any) -> None:
    found = explain_lack(Lack(kind, "/srv/private"))
    said = load_text("zh_Hans").problem({**found.whole, "inner": {"problem": "it ended"}})
    assert "it ended" in said
    assert "spec.sandbox." in said
