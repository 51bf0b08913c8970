"""The error paths of the command line in Chinese: no English sentence stands outside of a quotation."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.chinese import english_in
from tests.cli.conftest import RunningHost
from tests.ports import free_port
from typer.main import get_command

from bollard.cli.app import COMMANDS, load

CHINESE = {"BOLLARD_LANG": "zh_Hans"}
RAISES = """
from bollard.sdk import RunContext, runner


@runner(name="default", label="Raises")
async def raises(ctx: RunContext):
    yield ctx.delta("well ")
    raise ValueError("the weather is bad today")
"""


def commands() -> list[tuple[str, ...]]:
    """The path of every command."""
    paths: list[tuple[str, ...]] = []
    for name, entry in COMMANDS.items():
        command: Any = get_command(load(entry))
        inner = getattr(command, "commands", {})
        paths += [(name, each) for each in inner] or [(name,)]
    return paths


def refused(bollard: Any, *arguments: str, **variables: str) -> str:
    """What a command that fails says."""
    done = bollard(*arguments, **CHINESE, **variables)
    assert done.code != 0, arguments
    said = done.out + done.err
    assert english_in(said) == [], (arguments, said)
    return said


def test_an_english_sentence_is_found_and_a_quotation_or_an_identifier_is_not() -> None:
    assert english_in("失败：there is no such run") == ["there is no such run"]
    quoted = ("“no such run here”（原文）", "（原文：no such run here）", "用 `bollard runs show ID` 查看")
    for fine in (*quoted, "agent.runner_id：缺少此字段", "bollard: bollard runs list 没有此选项"):
        assert english_in(fine) == []


@pytest.mark.full
def test_wrong_usage_of_every_command_is_told_in_chinese(bollard: Any) -> None:
    found = commands()
    assert len(found) > 80
    for path in found:
        refused(bollard, *path, "--no-such-option")


BROKEN_FILES = {
    "import.py": "raise ValueError('the weather is bad today')\n",
    "syntax.py": "def broken(:\n",
    "nothing.py": "x = 1\n",
    "declared.py": "from bollard.sdk import runner\n\n\n@runner(label='x')\ndef run(ctx): ...\n",
    "tool.py": "from bollard.sdk import tool\n\n\n@tool()\ndef add(a): ...\n",
    "risk.py": "from bollard.sdk import tool\n\n\n@tool(risk='lwo', description='x')\ndef add(a: int) -> int: ...\n",
}
BROKEN_MANIFESTS = {
    "yaml": "spec: [1, 2\nb: 3\n",
    "twice": "a: 1\nb: 2\na: 3\n",
    "list": "- 1\n",
    "version": "apiVersion: bollard/v2\n",
}


@pytest.mark.full
def test_a_broken_plugin_is_told_in_chinese(bollard: Any, tmp_path: Path) -> None:
    for name, source in BROKEN_FILES.items():
        (tmp_path / name).write_text(source, encoding="utf-8")
    for name, manifest in BROKEN_MANIFESTS.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.yaml").write_text(manifest, encoding="utf-8")
    for name in (*BROKEN_FILES, *BROKEN_MANIFESTS, "absent"):
        refused(bollard, "plugin", "check", name, "--text", COLUMNS="200")
        refused(bollard, "plugin", "run", name, "--message", "hi", "--text")
    assert "第 3 行" in refused(bollard, "plugin", "run", "twice", "--message", "hi", "--text")
    assert "run() 不是 async 函数" in refused(bollard, "plugin", "run", "declared.py", "--message", "hi", "--text")
    imported = refused(bollard, "plugin", "run", "import.py", "--message", "hi", "--text")
    assert "无法导入 import.py：“ValueError: the weather is bad today”（原文）" in imported


def test_a_file_that_is_no_proof_and_a_host_that_is_away_are_told_in_chinese(bollard: Any, tmp_path: Path) -> None:
    for content in ("", "[]", "{}", '{"kind": "else"}'):
        (tmp_path / "proof.json").write_text(content)
        assert "证明" in refused(bollard, "audit", "verify", "--proof", "proof.json", "--text")
    refused(bollard, "audit", "verify", "--proof", "absent.json", "--text")
    refused(bollard, "audit", "verify", "--data", "nowhere", "--text")
    refused(bollard, "agents", "--url", f"http://127.0.0.1:{free_port()}", "--text")


def test_a_wrong_proxy_is_told_in_chinese(bollard: Any) -> None:
    for proxy, told in (
        ("https://proxy.example", "proxy：是 https 地址"),
        ("proxy.example:1", "proxy：不是代理的地址"),
    ):
        assert told in refused(bollard, "up", "--text", "--port", "0", BOLLARD_PROXY=proxy)


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHost]:
    host = RunningHost(tmp_path_factory.mktemp("chinese"))
    (host.folder / "raises.py").write_text(RAISES, encoding="utf-8")
    try:
        yield host.start("--plugins", "raises.py", agents=("raises", "assistant", "demo"))
    finally:
        host.close()


@pytest.mark.full
def test_the_refusals_of_a_host_are_told_in_chinese(failing: RunningHost, bollard: Any) -> None:
    for path in commands():
        if path[-1] in ("show", "delete", "remove", "revoke", "logs", "restart", "refresh", "logout", "allow", "deny"):
            refused(bollard, *path, "nothing-there", "--text", **failing.variables)
    refused(bollard, "models", "add", "x", "--base-url", "ftp://a", "--model", "m", "--text", **failing.variables)
    refused(bollard, "mcp", "add", "x", "--server-url", "http://169.254.1.1/", "--text", **failing.variables)
    for document in ({}, {"agent_id": "a"}, {"agent_id": "a", "runner_id": "x", "odd": 1}):
        refused(bollard, "agents", "save", "-", "--text", **failing.variables, stdin=json.dumps(document))


PROGRAM = """apiVersion: bollard/v1
kind: Plugin
metadata: {author: acme, name: started, version: 1.0.0, label: {en_US: Started}}
spec:
  command: [%s]
  runners: [{name: default, label: {en_US: Started}}]
"""


@pytest.mark.full
def test_a_plugin_that_a_host_does_not_install_is_told_in_chinese(failing: RunningHost, bollard: Any) -> None:
    folder = failing.folder / "started"
    folder.mkdir()
    install = ("plugin", "install", str(folder), "--yes", "--text")
    for command, told in (
        ("no-such-program", "no-such-program 不在 PATH 中"),
        ("./worker", "./worker 不是插件文件夹中的可执行文件"),
    ):
        (folder / "manifest.yaml").write_text(PROGRAM % command, encoding="utf-8")
        assert f"插件 acme/started 无法使用：无法启动：{told}" in refused(bollard, *install, **failing.variables)
    for first, told in (
        ("#!/nowhere/node\n", "第一行指定的解释器不存在"),
        ("echo hello\n", "的第一行没有指定解释器，例如 #!/bin/sh"),
    ):
        (folder / "worker").write_text(first, encoding="utf-8")
        (folder / "worker").chmod(0o755)
        assert told in refused(bollard, *install, **failing.variables)
    for manifest in BROKEN_MANIFESTS.values():
        (folder / "manifest.yaml").write_text(manifest, encoding="utf-8")
        refused(bollard, *install, **failing.variables)
    (folder / "manifest.yaml").write_text(BROKEN_MANIFESTS["twice"], encoding="utf-8")
    assert "插件无效：manifest.yaml 第 3 行：键 a 重复" in refused(bollard, *install, **failing.variables)


@pytest.mark.full
def test_a_run_that_fails_is_told_in_chinese(failing: RunningHost, bollard: Any) -> None:
    there = {**failing.variables, **CHINESE}
    said = refused(bollard, "chat", "--agent", "raises", "--message", "hi", "--text", **failing.variables)
    assert "“ValueError: the weather is bad today”（原文）" in said
    run = bollard("runs", **failing.variables).json["items"][0]["run_id"]
    shown = bollard("runs", "show", run, "--text", **there).out
    assert "错误：“ValueError: the weather is bad today”（原文）" in shown
    assert english_in(shown) == []


@pytest.mark.full
def test_a_server_that_does_not_connect_is_told_in_chinese(failing: RunningHost, bollard: Any) -> None:
    there = {**failing.variables, **CHINESE}
    assert bollard("mcp", "add", "gone", "/nowhere/server", **failing.variables).code == 0
    while bollard("mcp", "show", "gone", **failing.variables).json["status"] != "waiting":
        pass
    for arguments in (("mcp", "show", "gone"), ("mcp", "list"), ("capabilities",)):
        shown = bollard(*arguments, "--text", **there).out
        lines = [line for line in shown.splitlines() if "gone" in line or "程序" in line or "路径" in line]
        assert any("程序不存在" in line for line in lines), shown
        assert english_in("\n".join(lines)) == []
    assert "请写完整路径，或使用主机 PATH 中的程序" in bollard("mcp", "show", "gone", "--text", **there).out
    assert bollard("mcp", "remove", "gone", **failing.variables).code == 0
