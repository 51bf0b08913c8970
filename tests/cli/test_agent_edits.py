"""`bollard agents set` and `edit`, and the warnings of a saved agent, against a real host."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import BOLLARD
from tests.tables import for_each

from bollard.cli.agents.agents import form_lines, new_agent
from bollard.cli.agents.document_edits import Assignment, EditedFile, assigned, read_assignment, written
from bollard.cli.client.documents import parse_document
from bollard.cli.errors import UsageProblem
from bollard.cli.language import LANGUAGES, Text
from bollard.cli.terminal.columns import printable

# --- assignments, without a host ---


@for_each(
    ("given", "path", "value"),
    [
        ("a=1", ("a",), 1),
        ("a.b=true", ("a", "b"), True),
        ('a.b=["x"]', ("a", "b"), ["x"]),
        ('a="1"', ("a",), "1"),
        ("a=gpt-4", ("a",), "gpt-4"),
        ("a=b=c", ("a",), "b=c"),
        ("a=", ("a",), ""),
        ("a=null", ("a",), None),
        ("a=NaN", ("a",), "NaN"),
        ("a=-Infinity", ("a",), "-Infinity"),
        (f"a={'[' * 9000}", ("a",), "[" * 9000),
    ],
)
def test_a_value_is_json_if_it_parses_and_text_otherwise(given: str, path: tuple[str, ...], value: Any) -> None:
    assert read_assignment(given) == Assignment(path=path, value=value)


def test_the_backup_file_of_an_editor_is_removed_with_its_file(tmp_path: Path) -> None:
    file = EditedFile("polly", {"label": {"en_US": "A"}}, "yaml")
    file.edit({"EDITOR": editor(tmp_path, 'cp "$1" "$1~"', 'echo "label: {}" > "$1"')})
    assert file.document() == {"label": {}}
    file.remove()
    assert not file.path.parent.exists()


@for_each("given", ["a", "=1", "a..b=1", ".a=1", "a=@/nowhere/at/all"])
def test_an_invalid_assignment_is_refused(given: str) -> None:
    with pytest.raises(UsageProblem):
        read_assignment(given)


def test_assignments_change_a_copy_create_objects_and_remove_with_null(tmp_path: Path) -> None:
    (tmp_path / "prompt.md").write_text("Be brief.\n", encoding="utf-8")
    before = {"config": {"old": 1, "kept": 2}, "label": {"en_US": "A"}}
    given = [
        "config.old=null",
        "config.gone=null",
        "policy.budget.runs_per_day=5",
        f"config.prompt=@{tmp_path}/prompt.md",
    ]
    after = assigned(before, [read_assignment(each) for each in given])
    assert after == {
        "config": {"kept": 2, "prompt": "Be brief.\n"},
        "label": {"en_US": "A"},
        "policy": {"budget": {"runs_per_day": 5}},
    }
    assert before["config"] == {"old": 1, "kept": 2}
    with pytest.raises(UsageProblem):
        assigned(before, [read_assignment("label.en_US.x=1")])


@for_each("form", ["yaml", "json"])
def test_a_document_reads_back_the_same(form: Any) -> None:
    document = {"a": "两行\nzwei\n", "b": ["yes", "1", "null", "2026-01-01"], "c": {"d": None, "e": 1.5, "f": True}}
    assert parse_document(f"x.{form}", written(document, form)) == document


@for_each("source", ["a: [", "- 1", "a: 2026-01-01", "a: .nan"])
def test_invalid_yaml_is_refused(source: str) -> None:
    with pytest.raises(UsageProblem):
        parse_document("x.yaml", source)


# --- with a host ---


@pytest.fixture
def ask(bollard, steady_host):
    return lambda *arguments, **more: bollard(*arguments, **{**steady_host.variables, **more})


@pytest.fixture
def slowly(ask):
    """A saved agent of the steady runner."""
    draft = ask("agents", "new", "slowly", "--runner", "steady").json
    assert ask("agents", "save", "-", stdin=json.dumps(draft)).code == 0
    yield "slowly"
    ask("agents", "delete", "slowly")


def editor(folder: Path, *lines: str) -> str:
    """An editor that runs these lines of a shell, with the file as $1."""
    script = folder / "editor"
    script.write_text("#!/bin/sh\n" + "\n".join(lines) + "\n", encoding="utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def test_set_changes_fields_and_prints_old_and_new_values(ask, slowly: str) -> None:
    done = ask("agents", "set", slowly, "config.steps=3", "label.zh_Hans=慢", "--text")
    assert done.code == 0
    assert done.out.splitlines() == [
        "config.steps: 150 → 3",
        'label.zh_Hans: "稳步" → "慢"',
        "saved agent slowly, revision 2",
    ]
    assert ask("agents", "set", slowly, "config.steps=3", "--text").out == "agent slowly is unchanged\n"
    shown = ask("agents", "show", slowly).json
    assert (shown["config"]["steps"], shown["label"]["zh_Hans"], shown["revision"]) == (3, "慢", 2)
    refused = ask("agents", "set", slowly, "config.nothing=1")
    assert (refused.code, "the form has steps, pause_s" in refused.err) == (4, True)
    outside = ask("agents", "set", slowly, "steps=3")
    assert (outside.code, outside.err) == (
        2,
        "bollard: an agent has no field steps\n"
        "hint: a field of its form begins with config., for example config.steps=…; `bollard agents show slowly` lists "
        "the others\n",
    )


def test_show_prints_locked_fields_with_the_reason_and_display_rows() -> None:
    hostile = "https://a.example\x1b[2J"
    form = [
        {
            "name": "region",
            "type": "string",
            "label": {"en_US": "Region", "zh_Hans": "区域"},
            "locked": {"en_US": "Agreed.", "zh_Hans": "已约定。"},
        },
        {"name": "callback", "type": "display", "label": {"en_US": "Callback"}, "default": hostile},
        {"name": "hidden", "type": "string", "label": {"en_US": "Hidden"}, "locked": {"en_US": "Agreed."}},
        {"name": "steps", "type": "integer", "label": {"en_US": "Steps"}},
    ]
    english, chinese = ([*form_lines({"region": "eu", "steps": 1}, form, Text(each))] for each in LANGUAGES)
    assert english == ['  Region: "eu" (locked: Agreed.)', f"  Callback: {printable(hostile)}"]
    assert chinese[0] == '  区域："eu"（已锁定：已约定。）'
    assert "\x1b" not in english[1]


def test_a_draft_leaves_out_display_rows() -> None:
    label = {"en_US": "Callback"}
    form = [
        {"name": "callback", "type": "display", "label": label, "default": "x"},
        {"name": "steps", "type": "integer", "label": label, "default": 3, "locked": {"en_US": "Agreed."}},
    ]
    runner = {"runner_id": "r", "label": label, "permissions": {}, "config_schema": form, "capabilities": {}}
    assert new_agent("polly", runner)["config"] == {"steps": 3}


@pytest.mark.full
def test_save_show_and_set_print_a_warning_and_its_command_resolves_it(ask, slowly: str) -> None:
    added = ask("agents", "set", slowly, 'policy.access.resources.agents.add=["nobody-there"]', "--text")
    assert added.code == 0, "a warning refuses nothing"
    assert added.out.splitlines()[-2:] == [
        "warning: policy.access.resources.agents.add names the agent nobody-there, which does not exist",
        "  hint: save it first, or choose one of `bollard agents`",
    ]
    chinese = ask("agents", "show", slowly, "--text", BOLLARD_LANG="zh_Hans").out
    assert "它的运行可以做什么：" in chinese
    assert "警告：policy.access.resources.agents.add 指定的智能体 nobody-there 不存在" in chinese
    document = ask("agents", "show", slowly).json
    assert [each["reason"] for each in document["warnings"]] == ["missing_agents"]
    assert ask("agents", "save", "-", stdin=json.dumps(document)).code == 0, "an answer can be saved back"
    mended = ask("agents", "set", slowly, "policy.access.resources=null").json
    assert mended["warnings"] == []


@pytest.mark.full
def test_edit_saves_the_edited_document_and_removes_its_file(ask, slowly: str, tmp_path: Path) -> None:
    change = editor(tmp_path, "sed -i 's/steps: 150/steps: 7/' \"$1\"", f'echo "$1" > {tmp_path}/place')
    done = ask("agents", "edit", slowly, "--yes", EDITOR="false", VISUAL=change)
    assert (done.code, done.json["config"]["steps"]) == (0, 7)
    assert not Path((tmp_path / "place").read_text().strip()).exists()
    same = ask("agents", "edit", slowly, "--yes", "--text", EDITOR="true")
    assert (same.code, same.out) == (0, "agent slowly is unchanged\n")


@pytest.mark.full
def test_a_refused_edit_keeps_the_file(ask, slowly: str, tmp_path: Path) -> None:
    change = editor(tmp_path, "sed -i 's/steps: 150/steps: many/' \"$1\"", f'echo "$1" > {tmp_path}/place')
    refused = ask("agents", "edit", slowly, "--yes", EDITOR=change)
    assert refused.code == 4
    kept = Path((tmp_path / "place").read_text().strip())
    assert f"Your text is kept in {kept}" in refused.err.replace("\n", " ")
    assert "config.steps should be a whole number" in refused.err
    kept.write_text(kept.read_text().replace("steps: many", "steps: 8"), encoding="utf-8")
    assert ask("agents", "save", str(kept)).json["config"]["steps"] == 8, "YAML is saved as it is"
    assert ask("agents", "edit", slowly, EDITOR="true").code == 2, "without a terminal it needs --yes"
    assert ask("agents", "edit", slowly, "--yes", EDITOR="/nowhere/editor").code == 2


@pytest.mark.full
def test_on_a_terminal_edit_shows_the_changes_and_asks(terminal, steady_host, slowly: str, tmp_path: Path) -> None:
    change = editor(tmp_path, "sed -i 's/steps: 150/steps: 9/' \"$1\"")
    asked = terminal("agents", "edit", slowly, **steady_host.variables, EDITOR=change)
    shown = asked.expect(r"Save these changes\?")
    assert "-  steps: 150" in shown
    assert "+  steps: 9" in shown
    asked.send("n\n")
    asked.expect(r"agent slowly is not saved")
    assert asked.end() == 2
    broken = editor(
        tmp_path,
        f"if [ -e {tmp_path}/again ]; then sed -i 's/^steps: \\[$//' \"$1\"; fi",
        f"[ -e {tmp_path}/again ] || echo 'steps: [' >> \"$1\"",
        f"touch {tmp_path}/again",
        "sed -i 's/steps: 150/steps: 9/' \"$1\"",
    )
    again = terminal("agents", "edit", slowly, **steady_host.variables, EDITOR=broken)
    again.expect(r"is not YAML")
    again.expect(r"Edit again\?")
    again.send("y\n")
    again.expect(r"Save these changes\?")
    again.send("y\n")
    again.expect(r"saved agent slowly, revision 2")
    assert again.end() == 0


@pytest.mark.full
def test_after_a_conflict_edit_shows_what_others_changed_and_saves_on_top(
    terminal, ask, steady_host, slowly: str, tmp_path: Path
) -> None:
    given = " ".join(f"{name}='{value}'" for name, value in steady_host.variables.items())
    change = editor(
        tmp_path,
        f"[ -e {tmp_path}/again ] || {given} {BOLLARD} agents set {slowly} label.en_US=Theirs > {tmp_path}/set",
        f"touch {tmp_path}/again",
        "sed -i 's/steps: 150/steps: 9/' \"$1\"",
    )
    asked = terminal("agents", "edit", slowly, **steady_host.variables, EDITOR=change)
    asked.expect(r"Save these changes\?")
    asked.send("y\n")
    asked.expect(r"Edit again\?")
    asked.send("y\n")
    asked.expect(r"Changed meanwhile by others")
    asked.expect(r"\+  en_US: Theirs")
    asked.expect(r"Save these changes\?")
    asked.send("y\n")
    asked.expect(r"saved agent slowly, revision 3")
    assert asked.end() == 0
    assert ask("agents", "show", slowly).json["config"]["steps"] == 9
