"""`bollard plugin install`, `update`, `logs`, `dev` and the rest against a real host."""

import io
import json
import signal
import zipfile
from pathlib import Path
from typing import Any

import pytest

from bollard.cli.language import load_text
from bollard.cli.plugins.host_plugins import asked_lines, confinement_lines

pytestmark = pytest.mark.full


MANIFEST = """
apiVersion: bollard/v1
kind: Plugin
metadata:
  author: acme
  name: {name}
  version: {version}
  label: {{en_US: Talker, zh_Hans: 说话者}}
  description: {{en_US: Talks., zh_Hans: 说话。}}
spec:
  runners:
    - name: default
      label: {{en_US: Talker, zh_Hans: 说话者}}
      description: {{en_US: Talks., zh_Hans: 说话。}}
      permissions: {permissions}
      entry: "runner:talk"
"""
RUNNER = """
from bollard.sdk import RunContext, runner


@runner(label="Talker")
async def talk(ctx: RunContext):
    print("heard", ctx.input.text, flush=True)
    yield ctx.completed("{says} " + (ctx.input.text or ""))
"""


@pytest.fixture
def ask(bollard: Any, steady_host: Any) -> Any:
    """Run a command on the host of these tests."""
    return lambda *arguments, **more: bollard(*arguments, **{**steady_host.variables, **more})


@pytest.fixture
def talker(tmp_path: Path) -> Any:
    """A plugin's folder in the test's own."""

    def write(name: str = "talker", says: str = "one", version: str = "1.0.0", permissions: str = "{}") -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "manifest.yaml").write_text(MANIFEST.format(name=name, version=version, permissions=permissions))
        (folder / "runner.py").write_text(RUNNER.replace("{says}", says))
        (folder / "README.md").write_text("# Talker\n")
        (folder / "tests").mkdir(exist_ok=True)
        (folder / "tests" / "test_talk.py").write_text("def test_it() -> None: ...\n")
        return folder

    return write


def test_the_limits_of_a_worker_and_of_its_workspace_are_shown() -> None:
    bounds = {"memory_mib": 384, "cpu": 0.5, "processes": 256}
    workspace = {"memory_mib": 4096, "cpu": None, "processes": 2048}
    shown = {"level": "full", "network": "open", **bounds, "workspace": workspace}
    lines = [*confinement_lines(shown, load_text("en_US"))]
    assert lines[1:] == [
        "limits of one worker: 384 MiB of memory, processors: 0.5, 256 processes",
        "limits of all workers and MCP servers of the workspace together: 4096 MiB of memory, 2048 processes",
    ]


@pytest.fixture
def removed(ask: Any) -> Any:
    """Plugins that go when the test is over."""
    names: list[str] = []
    yield names.append
    for name in names:
        ask("plugin", "remove", name)


def said(ask: Any, text: str, agent: str = "talker") -> str:
    out: str = ask("chat", "--agent", agent, "--message", text, "--text").out
    return out.strip().splitlines()[-1]


def test_a_plugin_is_installed_with_consent_and_removed(ask: Any, talker: Any) -> None:
    folder = talker(permissions="{history: [page]}")
    refused = ask("plugin", "install", str(folder))
    assert refused.code == 2
    assert refused.err == (
        "bollard: acme/talker 1.0.0 needs your consent\nhint: review the permissions, then repeat with --yes\n"
    )
    made = ask("plugin", "install", str(folder), "--yes", "--text")
    assert made.out.startswith(
        "acme/talker 1.0.0 requests:\n  runner default, permissions: history.page\n  asks for no network\n"
        "installed acme/talker"
    )
    assert said(ask, "hi") == "one hi"
    shown = ask("plugin", "show", "acme/talker").json
    assert (shown["status"], shown["source"]) == ("ready", "talker")
    lines = ask("plugin", "show", "acme/talker", "--text").out
    assert "acme/talker 1.0.0 (installed)\nstatus: ready, workers: " in lines
    assert (
        "运行器 default，权限：history.page"
        in ask("plugin", "show", "acme/talker", "--text", BOLLARD_LANG="zh_Hans").out
    )
    table = ask("plugin", "list", "--text").out
    assert "acme/talker" in table
    assert "bollard/echo" in table
    assert {each["plugin_id"] for each in ask("plugin", "list").json["items"]} >= {"acme/talker", "bollard/echo"}
    assert ask("plugin", "remove", "acme/talker", "--text").out == "removed acme/talker\n"
    assert ask("plugin", "show", "acme/talker").err.startswith("bollard: the host says: there is no such plugin\n")


def test_an_update_shows_the_difference_and_can_be_rolled_back(ask: Any, talker: Any, removed: Any) -> None:
    assert ask("plugin", "install", str(talker()), "--yes").code == 0
    removed("acme/talker")
    wider = talker(says="two", version="2.0.0", permissions="{history: [page]}")
    assert ask("plugin", "update", str(wider)).code == 2
    done = ask("plugin", "update", str(wider), "--yes", "--text")
    assert "compared with its current permissions:\n  + runner default: history.page\n" in done.out
    assert "acme/talker is now 2.0.0" in done.out
    assert said(ask, "hi") == "two hi"
    narrower = talker(says="three", version="3.0.0")
    assert ask("plugin", "update", str(narrower), "--text").out.startswith("acme/talker is now 3.0.0")
    back = ask("plugin", "rollback", "acme/talker", "--text")
    assert back.out.startswith("acme/talker is now 2.0.0")
    assert ask("plugin", "disable", "acme/talker", "--text").out.startswith("disabled acme/talker 2.0.0")
    assert ask("plugin", "enable", "acme/talker", "--text").out.startswith("enabled acme/talker 2.0.0")
    assert ask("plugin", "restart", "acme/talker").code == 0


def test_a_file_a_zip_and_a_wheel_can_be_installed_too(
    ask: Any, talker: Any, removed: Any, write: Any, tmp_path: Path
) -> None:
    write("solo.py", RUNNER.replace("{says}", "solo"))
    assert ask("plugin", "install", "solo.py", "--yes").json["plugin_id"] == "local/solo"
    removed("local/solo")
    assert said(ask, "hi", "solo") == "solo hi"
    wheel = tmp_path / "acme_talker-1.0.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in ("manifest.yaml", "runner.py"):
            archive.write(talker() / file, f"acme_talker/{file}")
        archive.writestr("acme_talker-1.0.0.dist-info/entry_points.txt", "[bollard.plugins]\ntalker = acme_talker\n")
    made = ask("plugin", "install", str(wheel), "--yes").json
    removed("acme/talker")
    assert (made["plugin_id"], made["source"]) == ("acme/talker", wheel.name)
    assert said(ask, "hi") == "one hi"


def test_an_installation_with_an_unknown_risk_is_refused_before_consent(ask: Any, write: Any) -> None:
    code = """
        from bollard.sdk import RunContext, runner, tool

        @tool(risk="lwo")
        def count(text: str) -> int:
            return len(text)

        @runner()
        async def half(ctx: RunContext):
            yield ctx.delta("half")
        """
    made = ask("plugin", "install", str(write("half.py", code)), "--yes", "--text")
    assert (made.code, made.out) == (2, "")
    assert "low, medium, high, critical" in made.err


def test_an_invalid_plugin_is_refused_with_the_reason(ask: Any, write: Any, tmp_path: Path) -> None:
    absent = ask("plugin", "install", "nowhere")
    assert (absent.code, absent.err.splitlines()[0]) == (2, "bollard: nowhere does not exist")
    (tmp_path / "empty").mkdir()
    assert "it has no files" in ask("plugin", "install", "empty").err
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("../away", "x")
    (tmp_path / "away.zip").write_bytes(out.getvalue())
    assert "has a component that is empty, '.' or '..'" in ask("plugin", "install", "away.zip").err
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "manifest.yaml").symlink_to("/etc/passwd")
    assert "manifest.yaml is a link" in ask("plugin", "install", "linked").err
    assert "'echo' is not a plugin name" in ask("plugin", "show", "echo").err
    package = ask("plugin", "install", "no-such-package", "--package")
    assert "no such package in the host's environment" in package.err
    assert "1 to 2000" in ask("plugin", "logs", "bollard/echo", "--lines", "0").err


def test_the_log_of_a_plugin_is_printed_and_followed(
    ask: Any, talker: Any, removed: Any, started: Any, steady_host: Any
) -> None:
    assert ask("plugin", "install", str(talker()), "--yes").code == 0
    removed("acme/talker")
    following = started("plugin", "logs", "acme/talker", "--follow", **steady_host.variables)
    first = json.loads(following.stdout.readline())
    assert first["kind"] == "host"
    assert said(ask, "you") == "one you"
    while "heard" not in (line := json.loads(following.stdout.readline()))["text"]:
        pass
    assert line["text"] == "heard you"
    assert "heard you" in ask("plugin", "logs", "acme/talker", "--text").out
    assert ask("plugin", "logs", "acme/talker", "--lines", "1").json["items"][0]["text"] == "heard you"


@pytest.mark.smoke
def test_a_plugin_is_developed_against_a_running_host(ask: Any, talker: Any, started: Any, steady_host: Any) -> None:
    folder = talker(name="fresh", says="draft")
    dev = started("plugin", "dev", str(folder), "--yes", **steady_host.variables)

    def until(event: str, condition: Any = lambda said: True) -> Any:
        while True:
            line = dev.stdout.readline()
            assert line, "it ended"
            told = json.loads(line)
            if told["event"] == event and condition(told):
                return told

    began = until("reloaded")
    assert (began["plugin"], began["first"]) == ("acme/fresh", True)
    assert said(ask, "hi", "fresh") == "draft hi"
    until("line", lambda told: told["line"]["text"] == "heard hi")

    (folder / "runner.py").write_text(RUNNER.replace("{says}", "better"))
    again = until("reloaded")
    assert again["changed"] == ["runner.py"]
    assert said(ask, "hi", "fresh") == "better hi"

    (folder / "runner.py").write_text("def broken(:\n")
    kept = until("kept")
    assert "runner" in kept["problem"]
    assert said(ask, "hi", "fresh") == "better hi"

    (folder / "runner.py").write_text(RUNNER.replace("{says}", "last"))
    until("reloaded")
    assert said(ask, "hi", "fresh") == "last hi"
    dev.send_signal(signal.SIGINT)
    assert until("left")["plugin"] == "acme/fresh"
    assert dev.wait(timeout=120) == 0
    assert ask("plugin", "show", "acme/fresh").code == 4


def test_consent_is_asked_for_on_a_terminal(
    terminal: Any, talker: Any, steady_host: Any, ask: Any, removed: Any
) -> None:
    folder = talker()
    no = terminal("plugin", "install", str(folder), **steady_host.variables)
    no.expect(r"Consent\? \[y/N\] ")
    no.send("n\n")
    no.expect("no consent for acme/talker; nothing changed")
    assert no.end() == 2
    yes = terminal("plugin", "install", str(folder), **steady_host.variables)
    yes.expect(r"Consent\? \[y/N\] ")
    yes.send("y\n")
    yes.expect("installed acme/talker 1.0.0")
    assert yes.end() == 0
    removed("acme/talker")


# --- a program of its own ---

TINY = (Path(__file__).parents[1] / "doubles" / "tiny_worker.py").read_text(encoding="utf-8")
PROGRAM = """
apiVersion: bollard/v1
kind: Plugin
metadata: {author: acme, name: tiny, version: VERSION, label: {en_US: Tiny, zh_Hans: 小}}
spec:
  command: COMMAND
  runners:
    - {name: default, label: {en_US: Tiny, zh_Hans: 小}}
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Any:
    """The folder of a plugin whose worker is a program."""

    def write(command: str = "[bin/worker, --loud]", version: str = "1.0.0") -> Path:
        folder = tmp_path / "tiny"
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        (folder / "manifest.yaml").write_text(PROGRAM.replace("VERSION", version).replace("COMMAND", command))
        (folder / "bin" / "worker").write_text(TINY.replace('"1.0.0"', f'"{version}"'))
        return folder

    return write


def test_a_program_is_installed_with_its_command_and_restarted_after_a_crash(ask: Any, tiny: Any, removed: Any) -> None:
    removed("acme/tiny")
    installed = ask("plugin", "install", str(tiny()), "--yes", "--text")
    assert installed.code == 0, installed.err
    assert "program: bin/worker --loud" in installed.out
    assert said(ask, "hello", "tiny") == "tiny: hello"
    crashed = ask("chat", "--agent", "tiny", "--message", "crash", "--json")
    assert next(line for line in crashed.lines if line["type"] == "run.ended")["data"]["code"] == "runner.crashed"
    assert said(ask, "again", "tiny") == "tiny: again"
    shown = ask("plugin", "show", "acme/tiny", "--json").json
    assert shown["asks"]["command"] == ["bin/worker", "--loud"]
    assert (shown["status"], shown["crashes"]) == ("ready", 1)
    assert len(shown["digest"]) == 64
    logs = ask("plugin", "logs", "acme/tiny", "--text").out
    assert "stdout  arguments --loud in" in logs
    assert "a worker was lost" in logs


def test_a_program_that_fails_to_start_is_refused_with_its_own_error(ask: Any, tiny: Any) -> None:
    """Also where the program prints its stack and its version after the error."""
    folder = tiny()
    code = "printf '%s\\n' 'ReferenceError: serv is not defined' '    at greeter.mjs:4:1' '' 'Node.js v20' >&2; exit 1"
    (folder / "bin" / "worker").write_text(f"#!/bin/sh\n{code}\n")
    (folder / "bin" / "worker").chmod(0o755)
    error = "ReferenceError: serv is not defined (at greeter.mjs:4:1)"
    finding = ask("plugin", "check", str(folder)).json["findings"][0]
    assert (finding["rule"], error in finding["problem"]) == ("PC12", True)
    assert finding["hint"] == "correct the program; started by hand in its folder, it prints the whole error"
    assert f"it could not start: {error}\n" in ask("plugin", "install", str(folder), "--yes").err


def test_an_update_with_another_command_needs_a_new_consent(ask: Any, tiny: Any, removed: Any) -> None:
    removed("acme/tiny")
    assert ask("plugin", "install", str(tiny()), "--yes").code == 0
    assert ask("plugin", "update", str(tiny(version="1.0.1"))).code == 0, "the same command needs no new consent"
    refused = ask("plugin", "update", str(tiny("[bin/worker, --quiet]", "1.0.2")))
    assert refused.code == 2
    agreed = ask("plugin", "update", str(tiny("[bin/worker, --quiet]", "1.0.2")), "--yes", "--text")
    assert agreed.code == 0, agreed.err
    assert "+ command bin/worker --quiet" in agreed.out
    assert "- command bin/worker --loud" in agreed.out
    assert said(ask, "hello", "tiny") == "tiny: hello"
    assert "arguments --quiet in" in ask("plugin", "logs", "acme/tiny", "--text").out


def test_the_claims_of_a_tool_are_shown_in_the_chosen_language() -> None:
    asks = {"runners": {}, "env": [], "tools": {"count": "low, never sends_out", "other": "unknown"}}
    english, chinese = ([*asked_lines(asks, load_text(language))] for language in ("en_US", "zh_Hans"))
    assert english == ["tool count, risk low, never sends_out", "tool other, risk unknown"]
    assert chinese == ["工具 count，风险 低, 不会向外发送数据", "工具 other，风险 未知"]
