"""`bollard plugin check`: every broken rule is named, and one bad part hides no other."""

import contextlib
import json
import re
import secrets
from pathlib import Path

import pytest

from bollard.confine.probe import machine_findings
from bollard.confine.worker_level import choose_level

pytestmark = pytest.mark.full

MANIFEST = """
apiVersion: bollard/v1
kind: Plugin
metadata:
  author: me
  name: sample
  version: 1.0.0
  label: {en_US: Sample, zh_Hans: 样例}
  description: {en_US: A sample.}
spec:
  runners:
    - name: good
      label: {en_US: Good, zh_Hans: 好}
      description: {en_US: Works.}
      entry: runner:good
"""
CODE = """
from bollard.sdk import RunContext, runner

@runner()
async def good(ctx: RunContext):
    yield ctx.delta("hi")
"""


@pytest.fixture
def sample(write) -> Path:
    """A plugin folder that breaks no rule."""
    write("sample/README.md", "# Sample\n")
    write("sample/tests/test_runner.py", "def test_nothing():\n    pass\n")
    write("sample/runner.py", CODE)
    return write("sample/manifest.yaml", MANIFEST).parent


def rules(done) -> list[str]:
    return [finding["rule"] for finding in done.json["findings"]]


@pytest.mark.smoke
def test_a_valid_plugin_passes(bollard, sample) -> None:
    done = bollard("plugin", "check", "sample", "--strict")
    assert (done.code, done.json["passed"], rules(done)) == (0, True, [])
    assert done.json["usable"] == [{"kind": "runner", "name": "good", "label": "Good"}]


# --- what the loader says ---


def test_an_absent_path_is_named(bollard) -> None:
    for path in "nowhere", "nowhere.py":
        done = bollard("plugin", "check", path)
        assert (done.code, rules(done)) == (3, ["PL01"])


@pytest.mark.parametrize(
    ("manifest", "rule"),
    [
        (None, "PL02"),
        ("a: [", "PL03"),
        ("- a list\n", "PL03"),
        (MANIFEST.replace("author: me", "author: ME"), "PL04"),
        (MANIFEST.replace("spec:", "surprise: 1\nspec:"), "PL04"),
        (MANIFEST.replace("spec:", 'spec:\n  python: ">=9"'), "PL05"),
    ],
)
def test_an_unusable_manifest_is_one_finding(bollard, write, sample, manifest, rule: str) -> None:
    if manifest is None:
        (sample / "manifest.yaml").unlink()
    else:
        write("sample/manifest.yaml", manifest)
    done = bollard("plugin", "check", "sample")
    assert (done.code, rules(done), done.json["plugin"]) == (3, [rule], None)


def test_an_invalid_runner_is_a_finding_and_the_valid_one_stays_usable(bollard, write, sample) -> None:
    write(
        "sample/manifest.yaml",
        MANIFEST
        + """
    - {name: lost, label: {en_US: Lost}, description: {en_US: x}, entry: "nowhere:gone"}
    - {name: absent, label: {en_US: Absent}, description: {en_US: x}, entry: "runner:absent"}
    - {name: BAD, label: {en_US: Bad}, entry: "runner:good"}
    - {name: good, label: {en_US: Again}, entry: "runner:good"}
  tools:
    - {name: thing, description: No tool., entry: "runner:MISSING"}
""",
    )
    done = bollard("plugin", "check", "sample")
    assert sorted(rules(done)) == ["PL10", "PL11", "PL12", "PL12", "PL14"]
    assert done.code == 1
    assert [offer["name"] for offer in done.json["usable"]] == ["good"]


def test_a_raising_module_is_named_with_its_error(bollard, write, sample) -> None:
    write("sample/runner.py", "raise ValueError('on purpose')\n")
    [finding] = [f for f in bollard("plugin", "check", "sample").json["findings"] if f["rule"] == "PL11"]
    assert "ValueError: on purpose" in finding["problem"]


def test_the_output_of_a_plugin_does_not_disturb_the_report(bollard, write, sample) -> None:
    write("sample/runner.py", CODE + "\nimport os\nprint('{}' * 100_000)\nos.write(1, b'noise')\n")
    assert bollard("plugin", "check", "sample").json["passed"] is True


def test_a_large_report_arrives_whole(bollard, write, sample) -> None:
    entries = "".join(
        f"    - {{name: r{n}, label: {{en_US: R, zh_Hans: 好}}, description: {{en_US: {'x' * 4000}}}, "
        'entry: "runner:good"}\n'
        for n in range(40)
    )
    write("sample/manifest.yaml", MANIFEST + entries)
    done = bollard("plugin", "check", "sample")
    assert len(done.json["usable"]) == 41


# --- what only a process of its own can survive ---


def test_a_hanging_import_has_its_own_rule(bollard, write, sample) -> None:
    write("sample/runner.py", "import threading\nthreading.Event().wait()\n")
    done = bollard("plugin", "check", "sample", "--timeout", "2")
    assert (done.code, rules(done)) == (3, ["PC08"])


def test_an_import_that_exits_has_its_own_rule(bollard, write, sample) -> None:
    write("sample/runner.py", "import os, sys\nprint('so long', file=sys.stderr, flush=True)\nos._exit(0)\n")
    done = bollard("plugin", "check", "sample")
    assert (done.code, rules(done)) == (3, ["PC09"])
    assert "so long" in done.json["findings"][0]["problem"]


def test_processes_of_an_import_end_with_the_check(bollard, write, sample) -> None:
    mark = f"1000.{secrets.randbelow(10**9):09}"
    write("sample/runner.py", f"{CODE}import subprocess\nsubprocess.Popen(['sleep', '{mark}'])\n")
    assert bollard("plugin", "check", "sample").json["passed"] is True
    assert mark not in command_lines()


def command_lines() -> set[str]:
    """The last words of the command lines of all processes that live."""
    found: set[str] = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.add(path.read_text().rstrip("\0").split("\0")[-1])
    return found


def test_a_check_confines_the_code_that_it_loads(bollard, write, sample, tmp_path) -> None:
    if choose_level("best", machine_findings()).name == "none":
        pytest.skip("this machine confines nothing")
    (tmp_path / "secret").write_text("canary")
    write("sample/runner.py", CODE + f"open({str(tmp_path / 'secret')!r}).read()\n")
    done = bollard("plugin", "check", "sample")
    assert done.code == 3
    assert "Error" in done.json["findings"][0]["problem"]
    assert bollard("plugin", "check", "sample", BOLLARD_WORKER_SANDBOX="none").json["passed"] is True
    write("sample/manifest.yaml", MANIFEST + f"  sandbox: {{read: [{tmp_path / 'secret'}]}}\n")
    denied = bollard("plugin", "check", "sample")
    assert (denied.code, f"the plugin needs {tmp_path / 'secret'}" in denied.err) == (4, True)
    assert "BOLLARD_SANDBOX_ROOTS" in denied.err
    assert bollard("plugin", "check", "sample", BOLLARD_SANDBOX_ROOTS=str(tmp_path)).json["passed"] is True


def test_the_plugin_sees_the_environment_of_a_worker(bollard, write, sample) -> None:
    write("sample/manifest.yaml", MANIFEST + "  env: [ASKED_FOR]\n")
    seen = "import os\nraise RuntimeError(sorted(set(os.environ) & {'ASKED_FOR', 'NOT_ASKED_FOR', 'BOLLARD_LANG'}))\n"
    write("sample/runner.py", seen)
    done = bollard("plugin", "check", "sample", ASKED_FOR="1", NOT_ASKED_FOR="1", BOLLARD_LANG="en_US")
    assert "RuntimeError: ['ASKED_FOR']" in done.json["findings"][0]["problem"]


# --- what the folder says ---


def test_a_missing_readme_and_missing_tests_fail(bollard, sample) -> None:
    (sample / "README.md").write_text("")
    (sample / "tests/test_runner.py").unlink()
    done = bollard("plugin", "check", "sample")
    assert (done.code, rules(done)) == (1, ["PC01", "PC02"])


def test_labels_and_descriptions_warn_and_fail_only_when_strict(bollard, write, sample) -> None:
    manifest = MANIFEST.replace(", zh_Hans: 样例", "").replace(", zh_Hans: 好", "")
    write("sample/manifest.yaml", manifest.replace("  description: {en_US: A sample.}\n", ""))
    lenient, strict = bollard("plugin", "check", "sample"), bollard("plugin", "check", "sample", "--strict")
    assert rules(lenient) == ["PC03", "PC03", "PC06"]
    assert [finding["field"] for finding in lenient.json["findings"]] == [
        "metadata.label",
        "label",
        "metadata.description",
    ]
    assert (lenient.code, lenient.json["passed"]) == (0, True)
    assert (strict.code, strict.json["passed"]) == (1, False)


def test_a_default_that_is_invalid_for_its_field_fails(bollard, write, sample) -> None:
    form = """
      config_schema:
        - {name: times, type: integer, label: {en_US: Times, zh_Hans: 次数}, default: twice}
        - {name: tone, type: select, label: {en_US: Tone, zh_Hans: 语气}, default: shrill, options: [{value: plain}]}
        - {name: most, type: integer, label: {en_US: Most, zh_Hans: 上限}, default: 0}
        - {name: key, type: secret, label: {en_US: Key, zh_Hans: 密钥}, default: 4711}
        - {name: name, type: string, label: {en_US: Name, zh_Hans: 名称}, required: true}
        - {name: fine, type: boolean, label: {en_US: Fine, zh_Hans: 正常}, default: true}
"""
    model = """
from pydantic import BaseModel, Field

class Settings(BaseModel):
    name: str
    most: int = Field(ge=1)
    fine: bool = False
"""
    write("sample/manifest.yaml", MANIFEST.rstrip() + form)
    write("sample/runner.py", model + CODE.replace("ctx: RunContext)", "ctx: RunContext[Settings])"))
    done = bollard("plugin", "check", "sample")
    assert (done.code, rules(done)) == (1, ["PC10"] * 4)
    problems = {finding["field"].partition(".")[2]: finding["problem"] for finding in done.json["findings"]}
    assert problems["times"] == 'the default "twice" is not a value of type integer'
    assert problems["tone"] == 'the default "shrill" is not one of the options: "plain"'
    assert problems["most"].startswith("the configuration model refuses the default 0: Input should be greater than")
    assert "4711" not in problems["key"]
    chinese = bollard("--lang", "zh_Hans", "plugin", "check", "sample").json["findings"]
    assert chinese[0]["problem"] == '默认值 "twice" 不符合类型 integer'


def test_an_unknown_placeholder_and_a_lock_without_chinese_are_found(bollard, write, sample) -> None:
    form = """
      config_schema:
        - {name: hook, type: display, label: {en_US: Hook, zh_Hans: 回调}, default: "{host_url}/{agent}"}
        - {name: region, type: string, label: {en_US: Region, zh_Hans: 区域}, default: eu, locked: {en_US: Agreed}}
"""
    write("sample/manifest.yaml", MANIFEST.rstrip() + form)
    findings = bollard("plugin", "check", "sample").json["findings"]
    found = {each["rule"]: (each["field"], each["problem"]) for each in findings}
    assert found["PC10"] == (
        "config_schema.hook",
        "the text has {agent}, which the host does not replace; it replaces {host_url}, {runner_id}, {workspace}",
    )
    assert found["PC03"] == ("config_schema.region.locked", "has no text for zh_Hans")
    write(
        "sample/manifest.yaml",
        MANIFEST.rstrip() + form.replace("{agent}", "{workspace}").replace("Agreed", "Agreed, zh_Hans: 已约定"),
    )
    assert rules(bollard("plugin", "check", "sample")) == []


def test_a_lock_on_a_selector_fails(bollard, write, sample) -> None:
    item = "{name: m, type: llm-model-selector, label: {en_US: M, zh_Hans: 模型}, default: x, locked: {en_US: Agreed}}"
    write("sample/manifest.yaml", MANIFEST.rstrip() + f"\n      config_schema: [{item}]\n")
    done = bollard("--lang", "zh_Hans", "plugin", "check", "sample")
    assert "PL10" in rules(done)
    finding = next(each for each in done.json["findings"] if each["rule"] == "PL10")
    assert (finding["field"], "不能锁定：类型为 llm-model-selector" in finding["problem"]) == ("config_schema.0", True)


def test_a_default_with_an_unknown_tool_fails(bollard, write, sample) -> None:
    item = "{name: t, type: tool-multi-selector, label: {en_US: T, zh_Hans: 工具}, default: [%s]}"
    form = f"\n      config_schema: [{item}]\n"
    write("sample/manifest.yaml", MANIFEST.rstrip() + form % "misspelt")
    [finding] = bollard("plugin", "check", "sample").json["findings"]
    assert (finding["rule"], finding["field"]) == ("PC10", "config_schema.t")
    assert finding["problem"] == "the default names the tool misspelt, which the plugin does not have"
    assert "tool:builtin/now" in finding["hint"]
    write("sample/manifest.yaml", MANIFEST.rstrip() + form % "'tool:builtin/now', __none__")
    assert rules(bollard("plugin", "check", "sample")) == []


def test_a_computed_claim_of_a_single_file_fails_before_a_host_refuses_it(bollard, write) -> None:
    write("computed.py", CODE.replace("@runner()", "P = {'models': ['invoke']}\n\n@runner(permissions=P)"))
    done = bollard("plugin", "check", "computed.py")
    assert (done.code, rules(done)[0]) == (1, "PC11")
    assert done.json["findings"][0]["problem"].startswith("permissions of good is not a literal")


def test_a_call_without_permission_warns_with_file_and_line(bollard, write, sample) -> None:
    write("sample/runner.py", CODE + "    await ctx.api.models.invoke('m', [])\n    await ctx.api.history.page()\n")
    write("sample/manifest.yaml", MANIFEST.rstrip() + "\n      permissions: {history: [page]}\n")
    [finding] = bollard("plugin", "check", "sample").json["findings"]
    assert (finding["rule"], finding["severity"], finding["where"]) == ("PC04", "warning", "runner.py:6")
    assert "models: [invoke]" in finding["hint"]


def test_secrets_fail_and_example_secrets_do_not(bollard, write, sample) -> None:
    for name in (".env", "deep/server.key", ".env.example", "deep/id_rsa.pub"):
        write(f"sample/{name}", "x")
    done = bollard("plugin", "check", "sample")
    assert [(f["rule"], f["where"]) for f in done.json["findings"]] == [("PC05", ".env"), ("PC05", "deep/server.key")]
    assert done.code == 1


def test_leftover_files_are_one_warning(bollard, write, sample) -> None:
    write("sample/__pycache__/runner.pyc", "")
    write("sample/node_modules/.env", "")
    done = bollard("plugin", "check", "sample")
    assert (done.code, rules(done)) == (0, ["PC07"])
    assert "__pycache__, node_modules" in done.json["findings"][0]["problem"]


def test_a_file_other_than_python_is_named(bollard, write) -> None:
    write("notes.txt", "hello")
    done = bollard("plugin", "check", "notes.txt")
    assert (done.code, rules(done)) == (3, ["PL01"])


# --- how it looks ---


@pytest.mark.parametrize(("language", "heading"), [("en_US", "Rule"), ("zh_Hans", "规则")])
@pytest.mark.parametrize("columns", ["80", "120"])
def test_the_table_has_a_row_for_each_finding(bollard, sample, language: str, heading: str, columns: str) -> None:
    (sample / "README.md").unlink()
    (sample / "tests/test_runner.py").unlink()
    done = bollard("plugin", "check", "sample", "--text", BOLLARD_LANG=language, COLUMNS=columns)
    assert done.out.startswith(heading)
    assert re.findall(r"^PC\d\d", done.out, re.MULTILINE) == ["PC01", "PC02"]


def test_in_chinese_the_rule_and_the_hint_are_translated_and_the_detail_is_not(bollard, write, sample) -> None:
    write("sample/runner.py", "raise ValueError('on purpose')\n")
    finding = bollard("plugin", "check", "sample", "--lang", "zh_Hans").json["findings"][0]
    assert finding["problem"].startswith("每个条目的模块应可导入（")
    assert "on purpose" in finding["problem"]
    assert finding["hint"] == "修正所指出的错误"


def test_the_output_of_a_plugin_cannot_control_the_terminal(bollard, write, sample) -> None:
    write("sample/runner.py", "raise ValueError('\\x1b[2J gone')\n")
    assert "\x1b" not in bollard("plugin", "check", "sample", "--text").out


def test_json_and_text_agree(bollard, sample) -> None:
    (sample / "README.md").unlink()
    report = json.loads(bollard("plugin", "check", "sample", "--json").out)
    assert (report["errors"], report["warnings"]) == (1, 0)
    assert "1 errors, 0 warnings" in bollard("plugin", "check", "sample", "--text").out


# --- a program of its own ---

TINY = (Path(__file__).parents[1] / "doubles" / "tiny_worker.py").read_text(encoding="utf-8")
PROGRAM = """
apiVersion: bollard/v1
kind: Plugin
metadata:
  author: acme
  name: tiny
  version: 1.0.0
  label: {en_US: Tiny, zh_Hans: 小}
  description: {en_US: Echoes.}
spec:
  command: [bin/worker, --loud]
  runners:
    - name: default
      label: {en_US: Tiny, zh_Hans: 小}
      description: {en_US: Echoes.}
"""


@pytest.fixture
def tiny(write) -> Path:
    """A plugin whose worker is a program."""
    write("tiny/README.md", "# Tiny\n")
    write("tiny/bin/worker", TINY).chmod(0o755)
    return write("tiny/manifest.yaml", PROGRAM).parent


def test_a_program_that_matches_its_manifest_passes_without_python_tests(bollard, tiny) -> None:
    done = bollard("plugin", "check", "tiny", "--strict")
    assert (done.code, done.json["passed"], rules(done)) == (0, True, [])
    assert done.json["plugin"] == "acme/tiny 1.0.0"
    assert done.json["usable"] == [{"kind": "runner", "name": "default", "label": "Tiny"}]


def test_a_program_runs_in_the_terminal_in_its_folder(bollard, tiny) -> None:
    done = bollard("plugin", "run", "tiny", "--message", "hello", "--text", SECRET="not for it")
    assert done.code == 0
    assert "tiny: hello" in done.out
    assert f"arguments --loud in {tiny.resolve()} with BOLLARD_SANDBOX_NETWORK HOME LANG PATH" in done.out + done.err
    assert "SECRET" not in done.out + done.err


def test_a_program_that_differs_from_its_manifest_is_reported_with_the_differences(bollard, write, tiny) -> None:
    tools = "  tools:\n    - {name: count, description: Counts., risk: low}\n"
    manifest = PROGRAM.replace("name: default", "name: other").replace("1.0.0", "1.0.1")
    write("tiny/manifest.yaml", manifest + tools)
    done = bollard("plugin", "check", "tiny")
    assert (done.code, rules(done)) == (3, ["PC12"] * 4)
    assert {(each["where"], each["problem"]) for each in done.json["findings"]} == {
        ("manifest.yaml", "the program says it is acme/tiny 1.0.0, the manifest says acme/tiny 1.0.1"),
        ("other", "the program does not offer the runner other"),
        ("default", "the program offers the runner default, which the manifest does not declare"),
        ("count", "the program does not offer the tool count"),
    }
    chinese = bollard("--lang", "zh_Hans", "plugin", "check", "tiny")
    assert "程序没有提供工具 count" in {each["problem"] for each in chinese.json["findings"]}


def test_a_program_that_requests_more_than_its_manifest_is_reported(bollard, write, tiny) -> None:
    greedy = TINY.replace('"description": {"en_US": "Echoes."}', '"permissions": {"history": ["page"]}')
    write("tiny/bin/worker", greedy)
    done = bollard("plugin", "check", "tiny")
    assert "PC12" in rules(done)
    assert "history.page" in done.json["findings"][0]["problem"]


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("[no-such-program]", "no-such-program, the program of tiny, is not on the PATH"),
        ("[bin/nothing]", "bin/nothing is not an executable file in tiny"),
        ("[sh, -c, 'echo no luck >&2; exit 1']", "no luck"),
    ],
)
def test_a_program_that_fails_to_start_is_one_finding_with_a_hint(bollard, write, tiny, command, problem) -> None:
    write("tiny/manifest.yaml", PROGRAM.replace("[bin/worker, --loud]", command))
    done = bollard("plugin", "check", "tiny")
    assert (done.code, rules(done)) == (3, ["PC12"])
    assert problem in done.json["findings"][0]["problem"]
    ran = bollard("plugin", "run", "tiny", "--message", "hello")
    assert ran.code == 4
    assert problem in ran.err
    assert "hint: " in ran.err


def test_a_program_has_no_entries(bollard, write, tiny) -> None:
    write("tiny/manifest.yaml", PROGRAM + "      entry: runner:tiny\n")
    done = bollard("plugin", "check", "tiny")
    assert rules(done)[0] == "PL10"
    assert done.json["findings"][0]["field"] == "entry"


def test_the_tests_of_a_program_are_those_of_its_language(bollard, tiny) -> None:
    done = bollard("plugin", "test", "tiny")
    assert done.code == 1
    assert "bollard conformance -- COMMAND" in done.err
