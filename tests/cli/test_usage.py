"""Wrong command lines: one sentence, one hint, the documented exit code, and never a traceback."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

WRONG = {
    "an unknown language": (("--lang", "fr"), 2, "'fr'"),
    "a language that is missing": (("plugin", "--lang"), 2, "''"),
    "an unknown command": (("plugn",), 2, "'plugn'"),
    "an unknown command of a group": (("plugin", "chek"), 2, "'chek'"),
    "an unknown option": (("plugin", "new", "x", "--bogus"), 2, "--bogus"),
    "new without a name": (("plugin", "new"), 2, "NAME"),
    "new with capitals": (("plugin", "new", "Hello"), 2, "'Hello'"),
    "new with a path": (("plugin", "new", "../x"), 2, "'../x'"),
    "new with nothing": (("plugin", "new", ""), 2, "''"),
    "new with a long name": (("plugin", "new", "a" * 65), 2, "a" * 65),
    "new with a bad author": (("plugin", "new", "x", "--author", "A B"), 2, "'A B'"),
    "new in a place that is not there": (("plugin", "new", "x", "--dir", "nowhere"), 2, "nowhere"),
    "an option without its value": (("plugin", "new", "x", "--dir"), 2, "--dir"),
    "check without a path": (("plugin", "check"), 2, "PATH"),
    "check with no time": (("plugin", "check", ".", "--timeout", "0"), 2, "--timeout"),
    "check with too many paths": (("plugin", "check", "a", "b"), 2, "b"),
    "test without a path": (("plugin", "test"), 2, "PATH"),
    "test of nothing": (("plugin", "test", "nowhere"), 2, "nowhere"),
    "run of nothing": (("plugin", "run", "nowhere"), 2, "nowhere"),
    "run with a time that is no number": (("plugin", "run", ".", "--timeout", "soon"), 2, "--timeout"),
    "run with infinite time": (("plugin", "run", ".", "--timeout", "inf"), 2, "inf"),
    "run with a configuration that is not JSON": (("plugin", "run", ".", "--config", "{"), 2, "JSON"),
    "run with a configuration that is a list": (("plugin", "run", ".", "--config", "[]"), 2, "JSON"),
    "run with a configuration file that is not there": (("plugin", "run", ".", "--config", "@no.json"), 2, "no.json"),
    "run recording into a place that is not there": (("plugin", "run", ".", "--record", "no/where"), 2, "no"),
    "run recording into a folder": (("plugin", "run", ".", "--record", "."), 2, "."),
    "run of a folder without a manifest": (("plugin", "run", "."), 3, "PL02"),
    "steer without a text": (("runs", "steer", "run_x"), 2, "TEXT"),
    "steer as nobody": (("runs", "steer", "run_x", "hi", "--actor", "ada"), 2, "'ada'"),
    "chat as nobody": (("chat", "--actor", ":ada", "--message", "hi"), 2, "':ada'"),
    "revoke of nothing": (("runs", "revoke", "run_x"), 2, "run_x"),
    "revoke of a thing without a kind": (("runs", "revoke", "run_x", "--resource", "gpt"), 2, "'gpt'"),
    "an agent from no file": (("agents", "save", "nowhere.json"), 2, "nowhere.json"),
    "an agent from a folder": (("agents", "save", "."), 2, "."),
    "a binding from nothing": (("bindings", "save", "-"), 2, "-"),
    "a new agent without a runner": (("agents", "new", "mine"), 2, "--runner"),
    "an event that nobody caused": (("resolve", "--actor", "user:"), 2, "'user:'"),
    "an event with data that is a list": (("resolve", "--data", "[]"), 2, "--data"),
    "a shape that is not there": (("protocol", "schema", "Nothing"), 2, "'Nothing'"),
    "conformance of nothing": (("conformance",), 2, "CMD"),
    "conformance with nothing selected": (("conformance", "--select", "no such", "--", "true"), 2, "'no such'"),
    "conformance of a command that is not there": (("conformance", "--", "no-such-command"), 4, "no-such-command"),
    "conformance of a command that is no worker": (("conformance", "--", "true"), 4, "true"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize(("language", "hint"), [("en_US", "hint: "), ("zh_Hans", "提示：")])
def test_a_usage_error_has_a_message_a_hint_and_an_exit_code(bollard, case: str, language: str, hint: str) -> None:
    arguments, code, named = WRONG[case]
    done = bollard(*arguments, BOLLARD_LANG=language)

    sentence, advice = done.err.splitlines()
    assert sentence.startswith("bollard: ")
    assert (named if language == "en_US" else re.sub("^'(.*)'$", r"“\1”", named)) in sentence
    assert advice.startswith(hint)
    assert len(advice) > len(hint)
    assert (done.code, done.out) == (code, "")


def test_a_misspelled_command_gets_a_suggestion(bollard) -> None:
    assert "`bollard plugin check`" in bollard("plugin", "chek").err
    assert "`bollard chat --help`" in bollard("chat", "--message").err
    assert "AgentRunContext" in bollard("protocol", "schema", "AgentRunContex").err


def test_text_quoted_in_an_error_cannot_control_the_terminal(bollard) -> None:
    done = bollard("import", "\x1b[31mred\x1b]0;title\x07")
    assert done.code != 0
    assert "[31mred" in done.err
    assert "\x1b" not in done.err
    assert "\x07" not in done.err


def test_a_closed_output_pipe_is_not_an_error() -> None:
    command = Path(sys.executable).with_name("bollard")
    done = subprocess.run(
        ["bash", "-c", f"{command} protocol schema | head -c 10"], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("{")
    assert done.stderr == ""


BROKEN = """
import os, sys
from bollard.cli.app import Root
from bollard.cli.app import run
Root.lazy = {"broken": "no_such_module:app"}
sys.exit(run(["broken"], os.environ))
"""


@pytest.mark.parametrize("debug", ["", "1"])
def test_a_bug_is_one_message_and_shows_its_trace_only_on_request(debug: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BROKEN], capture_output=True, text=True, env={"BOLLARD_DEBUG": debug}, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("hint: this is a bug; report it")
    assert ("Traceback" in done.stderr) is bool(debug)
    assert "no_such_module" in done.stderr.splitlines()[-2]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("models delete", "models remove"),  # not `models default`
        ("agents rm", "agents delete"),
        ("plugin uninstall", "plugin remove"),
        ("keys create", "keys add"),
        ("runs stop", "runs cancel"),
        ("plugin chek", "plugin check"),
    ],
)
def test_a_synonym_of_a_command_is_answered_with_the_command(bollard, typed: str, meant: str) -> None:
    assert bollard(*typed.split(), "x").err.endswith(f"hint: did you mean `bollard {meant}`?\n")


def test_a_wrong_value_of_an_option_is_explained_in_chinese(bollard) -> None:
    done = bollard("plugin", "run", ".", "--timeout", "soon", BOLLARD_LANG="zh_Hans")
    assert "--timeout 的值无效：应为数字" in done.err
    done = bollard("plugin", "check", "a", "b", BOLLARD_LANG="zh_Hans")
    assert "bollard plugin check 不接受多余的参数 b\n" in done.err
