"""`bollard runtimes` and `bollard runtime` against a real host, with a real runtime of the same machine."""

import os
import signal
import subprocess
import textwrap
import time
from pathlib import Path

import pytest
from tests.cli.conftest import BOLLARD, environment

from bollard.confine.probe import machine_findings
from bollard.confine.worker_level import choose_level

pytestmark = pytest.mark.full


PATIENCE_S = 120
PLUGIN = """
    from bollard.sdk import RunContext, runner

    @runner(name="default", label="Afar", permissions={"history": ["page"]})
    async def afar(ctx: RunContext):
        yield ctx.completed(f"afar: {ctx.input.text}")
"""


CURIOUS = """
    import socket

    from bollard.sdk import RunContext, runner


    def tried(attempt) -> str:
        try:
            attempt()
        except OSError:
            return "refused"
        return "reached"


    @runner(name="default", label="Curious")
    async def curious(ctx: RunContext):
        files = tried(lambda: open("KEY").read())
        network = tried(lambda: socket.create_connection(("127.0.0.1", 9), timeout=2).close())
        listens = tried(lambda: socket.create_connection(("192.0.2.1", 9), timeout=2).close())
        yield ctx.completed(f"files: {files}, network: {network if network == listens else 'mixed'}")
"""


@pytest.fixture
def ask(bollard, steady_host):
    """Run a command on the host of these tests."""
    return lambda *arguments, **more: bollard(*arguments, **{**steady_host.variables, **more})


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    path = tmp_path / "afar.py"
    path.write_text(textwrap.dedent(PLUGIN), encoding="utf-8")
    return path


@pytest.fixture
def runtime(steady_host, plugin: Path, tmp_path: Path):
    """`bollard runtime` that keeps running, and ends with the test."""
    started: list[subprocess.Popen] = []

    def start(*arguments: str) -> subprocess.Popen:
        with (tmp_path / "said").open("ab") as said:
            process = subprocess.Popen(
                [BOLLARD, "runtime", str(plugin), "--connect", steady_host.url, *arguments],
                env=environment(XDG_CONFIG_HOME=str(tmp_path / "config")),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


TINY = (Path(__file__).parents[1] / "doubles" / "tiny_worker.py").read_text(encoding="utf-8")
PROGRAM = """
apiVersion: bollard/v1
kind: Plugin
metadata: {author: acme, name: tiny, version: 1.0.0, label: {en_US: Tiny}}
spec:
  command: [./worker, --from-manifest]
  runners:
    - {name: default, label: {en_US: Tiny}}
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """A folder with a worker that is a program, and its manifest."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "worker").write_text(TINY, encoding="utf-8")
    (folder / "worker").chmod(0o755)
    (folder / "manifest.yaml").write_text(PROGRAM, encoding="utf-8")
    return folder


@pytest.fixture
def program_runtime(steady_host, tmp_path: Path):
    """`bollard runtime` with these words, ended with the test."""
    started: list[subprocess.Popen] = []

    def start(*words: str, cwd: Path) -> subprocess.Popen:
        variables = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "BOLLARD_TOKEN": "x", "MINE": "1"}
        with (tmp_path / "said").open("ab") as said:
            process = subprocess.Popen(
                [BOLLARD, "runtime", *words],
                cwd=cwd,
                env=environment(**variables),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        process.terminate()
        process.wait()


def until(ask, name: str, status: str) -> dict:
    """The runtime, once it has this status."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = ask("runtimes", "show", name)
        if found.code == 0 and found.json["status"] == status and (status != "waiting" or found.json["problem"]):
            return found.json
        assert time.monotonic() < deadline, found.out + found.err


def test_a_plugin_cannot_read_the_key_of_its_runtime(ask, program_runtime, steady_host, tmp_path: Path) -> None:
    if choose_level("best", machine_findings()).name == "none":
        pytest.skip("this machine confines nothing")
    key = tmp_path / "key.json"
    path = tmp_path / "curious.py"
    path.write_text(textwrap.dedent(CURIOUS).replace("KEY", str(key)), encoding="utf-8")
    code = ask("runtimes", "enroll", "curious").json["code"]
    program_runtime(str(path), "--connect", steady_host.url, "--key", str(key), "--enroll", code, cwd=tmp_path)
    until(ask, "curious", "waiting")
    assert ask("runtimes", "consent", "curious", "--yes").code == 0
    talked = ask("chat", "--agent", "curious", "--message", "look", "--text").out
    assert "files: refused, network: refused" in talked
    assert key.is_file()
    ask("runtimes", "revoke", "curious")


@pytest.mark.smoke
def test_a_runtime_is_enrolled_used_and_revoked(ask, runtime, tmp_path: Path) -> None:
    shown = ask("runtimes", "enroll", "afar-box", "--text").out
    assert "--enroll blr_" in shown
    assert "not shown again" in shown
    code = ask("runtimes", "enroll", "afar-box").json["code"]
    assert ask("runtimes", "show", "afar-box").code == 4, "it is not there before it has used its code"
    process = runtime("--enroll", code)
    waiting = until(ask, "afar-box", "waiting")
    (key,) = (tmp_path / "config" / "bollard" / "runtimes").rglob("*.json")
    assert (key.stat().st_mode & 0o777, key.name) == (0o600, "afar.json")
    refused = ask("runtimes", "consent", "afar-box")
    assert (refused.code, "needs your consent" in refused.err) == (2, True)
    assert ask("runtimes", "consent", "afar-box", "--yes").json["consented"]["by"] == "admin-token"
    listed = ask("runtimes", "--text").out
    assert "afar-box" in listed
    assert "ready" in listed
    assert "就绪" in ask("runtimes", "--text", BOLLARD_LANG="zh_Hans").out
    one = ask("runtimes", "show", "afar-box", "--text").out
    for said in (
        "plugin local/afar 0",
        waiting["public_key"],
        "runner default, permissions: history.page",
        "ping",
        "consent to",
    ):
        assert said in one, one
    talked = ask("chat", "--agent", "afar", "--message", "hi", "--text")
    assert "afar: hi" in talked.out, talked.err
    assert "on another machine" in ask("plugin", "show", "local/afar", "--text").out
    kept = ask("plugin", "disable", "local/afar")
    assert (kept.code, "comes from a remote runtime" in kept.err) == (4, True)
    assert ask("runtimes", "revoke", "afar-box", "--text").out == "revoked afar-box\n"
    assert process.wait(PATIENCE_S) == 4
    assert ask("runtimes", "revoke", "afar-box").err.startswith("bollard: the host says: there is no such runtime")


def test_a_runtime_is_disabled_and_enabled(ask, runtime) -> None:
    process = runtime("--enroll", ask("runtimes", "enroll", "switched").json["code"])
    until(ask, "switched", "waiting")
    assert ask("runtimes", "disable", "switched", "--text").out == "disabled switched\n"
    assert process.wait(PATIENCE_S) == 4
    assert ask("runtimes", "show", "switched").json["status"] == "disabled"
    assert ask("runtimes", "enable", "switched").json["enabled"] is True
    again = runtime()
    until(ask, "switched", "waiting")
    os.kill(again.pid, signal.SIGINT)
    assert again.wait(PATIENCE_S) == 0
    until(ask, "switched", "away")
    ask("runtimes", "revoke", "switched")


def test_an_invalid_runtime_command_is_refused_with_a_hint(
    ask, bollard, plugin: Path, steady_host, tmp_path: Path
) -> None:
    own = {"XDG_CONFIG_HOME": str(tmp_path)}
    for arguments, code, said in (
        ((str(plugin), "--connect", steady_host.url), 2, "no key at"),
        ((str(plugin), "--connect", steady_host.url, "--enroll", "blr_wrong"), 4, "the enrolment code is invalid"),
        ((str(plugin), "--connect", "ws://192.0.2.1", "--enroll", "x"), 4, "in the clear"),
        ((str(plugin), "--connect", "nonsense", "--enroll", "x"), 4, "is not the address of a host"),
        ((str(plugin), "--connect", "ws://127.0.0.1:1", "--enroll", "x"), 4, "cannot be reached"),
        ((str(tmp_path / "absent"), "--connect", steady_host.url), 2, "does not exist"),
        (("--", "no-such-program", "worker.mjs", "--connect", steady_host.url), 2, "no-such-program is neither a file"),
        (("--", "sh", "worker.sh"), 2, "--connect is missing"),
    ):
        refused = bollard("runtime", *arguments, **own)
        assert (refused.code, said in refused.err, "hint: " in refused.err) == (code, True, True), refused.err
        assert "Traceback" not in refused.err
    assert ask("runtimes", "enroll", "Bad Name").code == 4
    assert ask("runtimes", "consent", "absent", "--yes").code == 4


@pytest.mark.parametrize(
    ("name", "words", "argument"),
    [
        ("behind", ("--", "./worker", "--typed", "--connect", "URL", "--enroll", "CODE"), "--typed"),
        ("before", ("--connect", "URL", "--enroll", "CODE", "--", "./worker", "--typed"), "--typed"),
        ("folder", (".", "--connect", "URL", "--enroll", "CODE"), "--from-manifest"),
    ],
)
def test_a_program_serves_a_host_from_another_machine(
    ask, program_runtime, tiny: Path, steady_host, tmp_path: Path, name: str, words: tuple[str, ...], argument: str
) -> None:
    code = ask("runtimes", "enroll", name).json["code"]
    filled = [{"URL": steady_host.url, "CODE": code}.get(word, word) for word in words]
    process = program_runtime(*filled, cwd=tiny)
    until(ask, name, "waiting")
    assert ask("runtimes", "consent", name, "--yes").code == 0
    talked = ask("chat", "--agent", "tiny", "--message", "hi", "--text")
    assert "tiny: hi" in talked.out, talked.err
    logs = ask("plugin", "logs", "acme/tiny", "--text").out
    assert f"arguments {argument} in {tiny} with" in logs
    assert ("MINE" in logs) == (name != "folder"), "a plugin gets the variables that its manifest names"
    assert "BOLLARD_" not in logs.replace("BOLLARD_SANDBOX_NETWORK", ""), "it knows that it has no network, no more"
    crashed = ask("chat", "--agent", "tiny", "--message", "crash", "--json")
    assert "runner.crashed" in crashed.out
    assert process.wait(PATIENCE_S) == 3, "a supervisor starts it again"
    assert "the program ended with code 7" in (tmp_path / "said").read_text()
    again = program_runtime(*[word for word in filled if word not in ("--enroll", code)], cwd=tiny)
    until(ask, name, "ready")
    assert ask("runtimes", "revoke", name).code == 0
    assert again.wait(PATIENCE_S) == 4
