"""`bollard protocol schema`, `bollard conformance`, `scripts/run`, and the pages about all of it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bollard.cli.plugins.findings import FOLDER_RULES, severity_of
from bollard.conformance import CASES
from bollard.protocol.export import render, schema_documents
from bollard.runtime import RULES

pytestmark = pytest.mark.full


ROOT = Path(__file__).parents[2]
BUNDLED_AGENTS = ("demo", "echo", "assistant")
WORKER = (sys.executable, "-m", "bollard.runtime", str(ROOT / "examples/conformance"))


# --- protocol ---


def test_one_schema_is_printed_as_stored(bollard) -> None:
    done = bollard("protocol", "schema", "AgentRunContext")
    assert done.out == render(schema_documents()["AgentRunContext.json"])


def test_without_a_name_all_schemas_are_one_document(bollard) -> None:
    assert {f"{name}.json" for name in bollard("protocol", "schema").json} == set(schema_documents())


def test_each_schema_is_written_to_its_own_file(bollard, tmp_path) -> None:
    done = bollard("protocol", "schema", "--out", "a/b")
    written = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "a/b").iterdir()}
    assert written == {name: render(document) for name, document in schema_documents().items()}
    assert done.json["files"] == sorted(written)


def test_one_schema_can_be_written(bollard, tmp_path) -> None:
    done = bollard("protocol", "schema", "limits", "--out", ".", "--text")
    assert done.out == "Wrote 1 files to .\n"
    assert [path.name for path in tmp_path.iterdir()] == ["limits.json"]


def test_an_unwritable_path_is_named(bollard, write) -> None:
    write("taken", "a file")
    done = bollard("protocol", "schema", "--out", "taken")
    assert done.code == 2
    assert "cannot write taken" in done.err


# --- openapi ---


def test_the_openapi_document_is_printed_as_stored(bollard) -> None:
    assert bollard("openapi").out == (ROOT / "docs/reference/openapi.json").read_text(encoding="utf-8")


def test_the_openapi_document_is_written(bollard, tmp_path) -> None:
    done = bollard("openapi", "--out", "api.json")
    assert done.json == {"path": "api.json"}
    assert json.loads((tmp_path / "api.json").read_text(encoding="utf-8"))["openapi"] == "3.1.0"


def test_an_unwritable_document_is_named(bollard) -> None:
    done = bollard("openapi", "--out", "absent/api.json")
    assert done.code == 2
    assert "cannot write absent/api.json" in done.err


# --- conformance ---


def test_the_verdict_of_the_kit_is_a_table(bollard) -> None:
    done = bollard("conformance", "--select", "tool", "--text", "--", *WORKER)
    assert done.code == 0
    assert done.out.startswith("Case")
    assert re.search(r"^tool_answers +P\d\d-\d+ +pass +\d+\.\d\d", done.out, re.MULTILINE)
    assert re.search(r"bollard\.runtime .* passed all \d+ cases", done.out)


def test_the_verdict_of_the_kit_is_json_for_programs(bollard) -> None:
    report = bollard("conformance", "--select", "lists_tools", "--", *WORKER).json
    assert (report["passed"], len(report["cases"])) == (True, 1)
    assert report["cases"][0].keys() == {"name", "sentence", "requirements", "passed", "detail", "seconds"}


def test_a_worker_that_breaks_the_protocol_fails(bollard, tmp_path) -> None:
    bollard("plugin", "new", "hello")  # a sound worker, which does not serve the scripted plugin
    worker = (sys.executable, "-m", "bollard.runtime", "hello")
    done = bollard("conformance", "--select", "lists_tools", "--text", "--lang", "zh_Hans", "--", *worker)
    assert done.code == 1
    assert "失败" in done.out


def test_progress_is_shown_on_a_terminal(terminal) -> None:
    shell = terminal("conformance", "--select", "lists_tools", "--", *WORKER, columns=120)
    shell.expect("passed all 1 cases")
    assert shell.end() == 0
    assert "Testing" in shell.shown


def test_the_tool_selection_runs_a_part_of_the_cases() -> None:
    assert 0 < sum("tool" in case.name for case in CASES) < len(CASES)


# --- make run ---


def test_make_run_starts_the_product(tmp_path) -> None:
    folder = {"XDG_CONFIG_HOME": str(tmp_path), "LANG": "C.UTF-8", "PATH": os.environ["PATH"]}
    folder["BOLLARD_CONSOLE_BUILD"] = "off"
    command = [ROOT / "scripts/run", "--data", str(tmp_path / "data"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=folder, text=True) as process:
        assert process.stdout is not None
        started = [json.loads(process.stdout.readline())["event"] for _ in ("listening", "token", *BUNDLED_AGENTS)]
        process.terminate()
        stopped = [json.loads(line)["event"] for line in process.stdout]
    assert started == ["listening", "token", *(["agent.ready"] * len(BUNDLED_AGENTS))]
    assert stopped == ["stopping", "stopped"]
    assert process.returncode == 0


# --- the pages ---


def headings(page: str) -> dict[str, str]:
    sections = re.split(r"^## ", (ROOT / "docs/reference" / page).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {title: body for title, _, body in (section.partition("\n") for section in sections)}


def test_every_rule_has_a_heading_with_its_severity() -> None:
    found = headings("plugin-checks.md")
    assert list(found) == [*RULES, *FOLDER_RULES]
    for rule, body in found.items():
        assert f"*{severity_of(rule).capitalize()}.*" in body


def test_every_loader_rule_is_in_its_section() -> None:
    for rule, body in headings("plugin-checks.md").items():
        if rule in RULES:
            assert RULES[rule].split(":")[0].lower() in " ".join(body.split()).lower()


@pytest.mark.parametrize(
    "command", ["plugin new", "plugin check", "plugin test", "plugin run", "openapi", "protocol schema", "conformance"]
)
def test_every_command_has_a_heading_that_names_its_options(bollard, command: str) -> None:
    body = headings("cli.md")[f"bollard {command}"]
    options = set(re.findall(r"--[a-z-]+", bollard(*command.split(), "--help").out.split("Options:")[1]))
    assert {option for option in options if option not in body} <= {"--help"}
