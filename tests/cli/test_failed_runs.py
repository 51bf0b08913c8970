"""A failed run names the failed plugin or model, the failure, and the command that shows more; each is tested here."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.cli.conftest import RunningHost
from tests.ports import free_port

pytestmark = pytest.mark.full

RAISES = """
from bollard.sdk import RunContext, runner


@runner(name="default", label="Raises")
async def raises(ctx: RunContext):
    yield ctx.delta("well ")
    raise ValueError("the weather is bad")
"""
EXITS = """
import os

from bollard.sdk import RunContext, runner


@runner(name="default", label="Exits")
async def exits(ctx: RunContext):
    yield ctx.delta("well ")
    os._exit(3)
"""


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHost]:
    host = RunningHost(tmp_path_factory.mktemp("failing"))
    (host.folder / "raises.py").write_text(RAISES, encoding="utf-8")
    (host.folder / "exits.py").write_text(EXITS, encoding="utf-8")
    names = ("raises", "exits", "assistant", "demo", "echo")
    try:
        plugins = ("--plugins", "raises.py", "--plugins", "exits.py")
        allowed = {"BOLLARD_EGRESS_ALLOW": "127.0.0.1", "BOLLARD_DEFAULT_MODEL": "smart"}
        yield host.start(*plugins, agents=names, **allowed)
    finally:
        host.close()


def told(bollard, host: RunningHost, agent: str, message: str = "hi", **variables: str) -> tuple[str, str]:
    """How a run of the agent ended: the line with the error, and the hint."""
    done = bollard("chat", "--text", "--agent", agent, "--message", message, **host.variables, **variables)
    assert done.code == 1
    error, hint = done.err.splitlines()[-2:]
    return error.strip(), hint.strip()


def test_a_raising_runner_is_found_in_the_log_of_its_plugin(failing: RunningHost, bollard) -> None:
    error, hint = told(bollard, failing, "raises")
    assert error.startswith("failed · runner.error · ValueError: the weather is bad")
    command = re.search(r"`bollard (.*)`", hint)
    assert command is not None
    assert command[1] == "plugin logs local/raises"
    logs = bollard(*command[1].split(), "--text", **failing.variables).out
    assert re.search(r"the runner raised · run: run_\w+ · error: ValueError: the weather is bad · at: .*:8 in", logs)
    run_id = bollard("runs", **failing.variables).json["items"][0]["run_id"]
    assert (
        "error: ValueError: the weather is bad\n" in bollard("runs", "show", run_id, "--text", **failing.variables).out
    )


def test_a_worker_that_exits_is_found_with_its_exit_code(failing: RunningHost, bollard) -> None:
    error, hint = told(bollard, failing, "exits", BOLLARD_LANG="zh_Hans")
    assert error.startswith("失败 · runner.crashed · 工作进程在运行期间退出 · ")
    assert "`bollard plugin logs local/exits`" in hint
    logs = bollard("plugin", "logs", "local/exits", **failing.variables).json["items"]
    while not any(line["text"] == "the worker process ended with exit code 3" for line in logs):
        logs = bollard("plugin", "logs", "local/exits", **failing.variables).json["items"]


def test_a_plugin_in_quarantine_is_named_with_the_command_that_ends_it(failing: RunningHost, bollard) -> None:
    for _ in range(5):
        error, _ = told(bollard, failing, "exits")
        if "quarantined" in error:
            break
    error, hint = told(bollard, failing, "exits")
    assert error.startswith(
        "failed · host.overloaded · plugin local/exits is quarantined; `bollard plugin restart local/exits` ends the "
        "quarantine: 5 crashes within 60 s, last: the peer closed the connection"
    )
    assert "`bollard plugin restart local/exits`" in hint
    (run, *_) = bollard("runs", **failing.variables).json["items"]
    ended = bollard("runs", "show", run["run_id"], **failing.variables).json["error"]
    assert "`bollard plugin restart local/exits` ends the quarantine" in ended["message"]
    assert (
        ended["details"]["cause"]["details"] | {"reason": "quarantined", "plugin": "local/exits"}
        == (ended["details"]["cause"]["details"])
    )
    chinese, _ = told(bollard, failing, "exits", BOLLARD_LANG="zh_Hans")
    assert "插件 local/exits 已被隔离（60 秒内崩溃 5 次，最近一次：工作进程意外断开）" in chinese
    doctor = ("doctor", "--text", "--data", str(failing.data), "--port", str(failing.port))
    said = bollard(*doctor, **failing.variables, BOLLARD_LANG="zh_Hans").out.replace("\n", "")
    assert "插件 local/exits 已被隔离：60 秒内崩溃 5 次" in said
    shown = bollard("plugin", "show", "local/exits", "--text", **failing.variables, BOLLARD_LANG="zh_Hans").out
    assert "问题：60 秒内崩溃 5 次" in shown
    assert bollard("plugin", "restart", "local/exits", **failing.variables).code == 0


def test_a_forbidden_page_is_reported_with_the_setting_that_allows_it(failing: RunningHost, bollard) -> None:
    draft = bollard("agents", "new", "fetcher", "--runner", "demo", **failing.variables).json
    draft["policy"] |= {"approval": {"mode": "never"}}
    draft["policy"]["access"]["resources"] = {"tools": {"add": ["tool:builtin/http_fetch"]}}
    assert bollard("agents", "save", "-", stdin=json.dumps(draft), **failing.variables).json["warnings"] == []
    call = 'call http_fetch {"url": "http://10.0.0.1:9000/"}'
    done = bollard("chat", "--text", "--agent", "fetcher", "--message", call, **failing.variables)
    assert "10.0.0.1 is not globally routable, and the setting egress_allow does not name it" in done.out
    added = ("models", "add", "inside", "--base-url", "http://10.0.0.1:9000/v1", "--model", "m")
    refused = bollard(*added, **failing.variables)
    assert "add 10.0.0.1:9000 to egress_allow, and restart the host" in refused.err


def test_a_second_workspace_without_the_default_model_learns_its_name(failing: RunningHost, bollard) -> None:
    assert bollard("models", "add", "smart", "--style", "demo", **failing.variables).code == 0
    assert bollard("agents", "show", "assistant", **failing.variables).json["warnings"] == []
    assert bollard("workspaces", "add", "second", **failing.variables).code == 0
    second = {**failing.variables, "BOLLARD_WORKSPACE": "second"}
    warnings: list[Any] = []
    while not warnings or warnings[0]["reason"] == "runner_absent":  # its workers are starting
        warnings = bollard("agents", "show", "assistant", **second).json.get("warnings", [])
    command = "BOLLARD_WORKSPACE=second bollard models add smart --preset NAME"
    assert [each["reason"] for each in warnings] == ["default_missing"]
    assert f"run `{command}`" in warnings[0]["hint"]
    shown = bollard("agents", "show", "assistant", "--text", **second, BOLLARD_LANG="zh_Hans").out
    assert "config.model 指定了模型 default，但工作区 second 没有默认模型" in shown
    assert f"请执行 `{command}`" in shown
    draft = bollard("agents", "new", "mine", "--runner", "local-agent", **second).out
    saved = bollard("agents", "save", "-", "--text", stdin=draft, **second).out
    assert "the workspace second has no default model" in saved
    assert command in saved
    examined = bollard("doctor", "--data", str(failing.data), "--port", str(failing.port), **second).json["findings"]
    assert [each["fix"] for each in examined if each["fields"].get("agent") == "assistant"] == [warnings[0]["hint"]]

    done = bollard("chat", "--text", "--agent", "assistant", "--message", "hello", **second)
    assert (done.code, done.out) == (1, "")
    error = f"the workspace second has no default model. Run `{command}`; the agent demo answers without a model"
    assert done.err.strip().startswith(f"failed · runner.error · {error} · ")
    chinese = bollard("chat", "--text", "--agent", "assistant", "--message", "hello", **second, BOLLARD_LANG="zh_Hans")
    assert f"工作区 second 没有默认模型。请执行 `{command}`；智能体 demo 不需要模型也能回答" in chinese.err
    fallback = bollard("agents", "show", "mine", **second).json
    fallback["config"]["model"] = {"primary": "default", "fallbacks": ["absent"]}
    assert bollard("agents", "save", "-", stdin=json.dumps(fallback), **second).code == 0
    tried = ("chat", "--text", "--agent", "mine", "--message", "hello")
    assert f"default: the workspace second has no default model, run `{command}`" in bollard(*tried, **second).err
    chinese = bollard(*tried, **second, BOLLARD_LANG="zh_Hans").err
    assert f"default：工作区 second 没有默认模型，请执行 `{command}`" in chinese
    demo = bollard("chat", "--text", "--verbose", "--message", "hello", **second)
    assert demo.code == 0
    assert "Default agent: the workspace second has no model; add one: `bollard models add" in demo.err

    assert bollard("models", "add", "smart", "--style", "demo", **second).code == 0
    assert bollard("chat", "--agent", "assistant", "--message", "hello", **second).out == "You said: hello\n"


def test_a_silent_model_is_reported_with_its_address(failing: RunningHost, bollard) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    added = bollard("models", "add", "gone", "--base-url", f"{address}/v1", "--model", "m", **failing.variables)
    assert added.code == 0
    agent = bollard("agents", "show", "assistant", **failing.variables).json
    agent["config"]["model"] = {"primary": "gone", "fallbacks": []}
    assert bollard("agents", "save", "-", stdin=json.dumps(agent), **failing.variables).code == 0
    error, hint = told(bollard, failing, "assistant")
    assert f"no model could answer: gone ({address}): unreachable (runtime_error)" in error
    assert hint == "hint: The model gone did not answer. Test it: `bollard models test gone`."
    tried = bollard("models", "test", "gone", "--text", **failing.variables)
    assert (tried.code, tried.out.splitlines()[0]) == (
        1,
        f"gone did not answer (unreachable): model gone at {address}: no connection: Connection refused",
    )
    chinese = told(bollard, failing, "assistant", "你好", BOLLARD_LANG="zh_Hans")
    assert f"没有模型能够回答：gone ({address})：无法连接" in chinese[0]
    assert chinese[1] == "提示：模型 gone 没有回答。请测试它：`bollard models test gone`。"


def test_an_installation_explains_why_the_plugin_cannot_be_loaded(failing: RunningHost, bollard, tmp_path) -> None:
    (tmp_path / "broken.py").write_text(f"import nothing_of_this_name\n{RAISES}", encoding="utf-8")
    refused = bollard("plugin", "install", "broken.py", "--yes", **failing.variables)
    assert refused.code != 0
    problem = "PL11 broken.py: module: cannot be imported: ModuleNotFoundError: No module named 'nothing_of_this_name'"
    assert f"the plugin local/broken cannot be used: it could not start: {problem}" in refused.err
    chinese = bollard("plugin", "install", "broken.py", "--yes", **failing.variables, BOLLARD_LANG="zh_Hans").err
    assert "插件 local/broken 无法使用：无法启动：PL11 broken.py: module" in chinese
    assert "无法导入 broken.py：“ModuleNotFoundError: No module named 'nothing_of_this_name'”（原文）" in chinese


def test_an_installation_explains_why_no_entry_of_a_folder_can_be_used(failing: RunningHost, bollard, tmp_path) -> None:
    assert bollard("plugin", "new", "greeter").code == 0
    code = tmp_path / "greeter" / "runner.py"
    code.write_text(f"import nothing_of_this_name\n{code.read_text(encoding='utf-8')}", encoding="utf-8")
    refused = bollard("plugin", "install", "greeter", "--yes", **failing.variables)
    assert "the plugin local/greeter cannot be used: default: runner cannot be imported: ModuleNotFound" in refused.err
    chinese = bollard("plugin", "install", "greeter", "--yes", **failing.variables, BOLLARD_LANG="zh_Hans").err
    assert "插件 local/greeter 无法使用：PL11 default: entry" in chinese
    assert "无法导入 runner：“ModuleNotFoundError: No module named 'nothing_of_this_name'”（原文）" in chinese


def test_a_refused_call_of_a_runner_has_a_hint_in_the_error_and_in_the_log(
    failing: RunningHost, bollard, tmp_path
) -> None:
    call = 'await ctx.api.models.invoke("default", [{"role": "user"}])'
    code = RAISES.replace('raise ValueError("the weather is bad")', call)
    (tmp_path / "asks.py").write_text(code, encoding="utf-8")
    assert bollard("plugin", "install", "asks.py", "--yes", **failing.variables).code == 0
    error, _ = told(bollard, failing, "asks")
    hint = (
        "unauthorized: models is not granted to this run. Hint: request models in the permissions of the runner, and "
        "permit it in policy.access.permissions of the agent; `bollard runs explain RUN` says why"
    )
    assert hint in error
    assert hint in bollard("plugin", "logs", "local/asks", "--text", **failing.variables).out
