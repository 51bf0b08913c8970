"""Every sentence is in the catalogue of every language, and in no other place."""

import ast
import json
import re
import string
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.tables import for_each
from typer.main import get_command

from bollard.cli import app as tree
from bollard.cli.app import COMMANDS, build, load
from bollard.cli.language import LANGUAGES, Text, choose_language, load_text, read_texts
from bollard.cli.plugins.findings import FOLDER_RULES
from bollard.cli.shell import Shell
from bollard.host.http import answers
from bollard.runtime import RULES

FOLDER = Path(tree.__file__).parent
ENGLISH, CHINESE = read_texts("en_US"), read_texts("zh_Hans")
REASONS = read_texts("zh_Hans/reasons")
SOURCES = sorted(FOLDER.rglob("*.py"))
DYNAMIC = (
    "connection.",
    "plugins.status.",
    "plugins.origin.",
    "plugins.network.",
    "plugins.read",
    "plugins.write",
    "plugins.memory_mib",
    "plugins.cpu",
    "catalogue.kind.",
    "catalogue.saved.",
    "plugins.bit.",
    "agents.mode.",
    "plugins.level.",
    "plugins.limit.",
    "agents.steer_from.",
    "approvals.confirm.",
    "approvals.decided.",
    "approvals.note.",
    "approvals.risk.",
    "approvals.state.",
    "rule.",
    "fix.",
    "status.",
    "option.",
    "PC",
    "check.",
    "failure.",
    "call.kind.",
    "call.status.",
    "capabilities.flow.",
    "capabilities.risk.",
    "channels.dedupe.",
    "channels.rule.",
    "chat.command.",
    "channels.status.",
    "hooks.outcome.",
    "layer.",
    "resolve.decision.",
    "resolve.open.",
    "doctor.",
    "models.origin.",
    "mcp.status.",
    "mcp.state.",
    "mcp.flow.",
    "runtimes.status.",
    "subscriptions.only.",
    "subscriptions.status.",
    "knowledge.status.",
)
"""Keys that are put together in the code."""


def fields_of(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


def literals(source: Path) -> set[str]:
    tree = ast.parse(source.read_text(encoding="utf-8"))
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_every_language_has_the_same_keys() -> None:
    assert set(ENGLISH) == set(CHINESE)


@pytest.mark.parametrize("folder", [*LANGUAGES, "zh_Hans/problems", "zh_Hans/reasons"])
def test_no_key_is_duplicated_in_a_language(folder: str) -> None:
    """The later one would hide the other."""
    lines = [line for path in (FOLDER / "text" / folder).glob("*.json") for line in path.read_text("utf-8").split("\n")]
    keys = [line.split('"')[1] for line in lines if line.startswith("  ")]
    assert sorted(keys) == sorted(set(keys))


def test_a_text_is_one_line_of_its_file() -> None:
    """Changes of two translators merge line by line."""
    for path in (FOLDER / "text").rglob("*.json"):
        lines = [f"  {_json(key)}: {_json(value)}" for key, value in json.loads(path.read_bytes()).items()]
        assert path.read_text("utf-8") == "{\n" + ",\n".join(lines) + "\n}\n", path


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def test_an_error_of_the_host_is_found_by_code_and_reason() -> None:
    chinese, english = load_text("zh_Hans"), load_text("en_US")
    fault = ("not_found", {"reason": "no_run"}, "there is no such run", "look at the list")
    assert chinese.host_error(*fault) == ("没有这个运行", "用 `bollard runs` 查看最新的运行")
    assert english.host_error(*fault) == fault[2:]


def test_an_error_without_a_text_follows_the_meaning_of_its_code() -> None:
    chinese, english = load_text("zh_Hans"), load_text("en_US")
    sentences = ("a new sentence", "do another thing")
    for details in ({}, {"reason": "of_a_newer_host"}, {"reason": "plugin_limit", "other": "details"}):
        said = chinese.host_error("conflict", details, *sentences)
        assert said == ("与现状冲突（原文：a new sentence）", "请查看现状后重试（原文：do another thing）")
    assert chinese.host_error("conflict", {}, "a new sentence", "") == (
        "与现状冲突（原文：a new sentence）",
        "请查看现状后重试",
    )
    assert chinese.host_error("no_such_code", {}, *sentences) == sentences
    assert english.host_error("conflict", {}, *sentences) == sentences


def test_every_code_of_the_api_is_translated() -> None:
    assert {key for key in REASONS if "." not in key} == set(answers.STATUS)


@for_each("key", sorted(ENGLISH))
def test_a_sentence_has_the_same_fields_in_every_language(key: str) -> None:
    assert fields_of(ENGLISH[key]) == fields_of(CHINESE[key])


@for_each("key", sorted(CHINESE))
def test_a_chinese_sentence_is_chinese_unless_it_has_no_words(key: str) -> None:
    words = re.sub(r"^ *bollard .*|\{[^}]*\}|`[^`]*`|'[^']*'|pip install", "", ENGLISH[key])
    if re.search(r"[A-Za-z]{3}", words):
        assert re.search(r"[\u4e00-\u9fff]", CHINESE[key])


def test_the_loader_rules_match_their_source() -> None:
    assert {rule: ENGLISH[f"rule.{rule}"] for rule in RULES} == dict(RULES)


def test_every_rule_has_a_sentence_and_a_remedy() -> None:
    rules = {*RULES, *FOLDER_RULES}
    assert {key.removeprefix("rule.") for key in ENGLISH if key.startswith("rule.P")} == rules
    assert {key.removeprefix("fix.") for key in ENGLISH if key.startswith("fix.")} == rules


def test_every_key_is_used() -> None:
    used = set[str]().union(*(literals(source) for source in SOURCES), _made_keys())
    unused = {key for key in ENGLISH if key not in used and not key.startswith(DYNAMIC) and ".column." not in key}
    assert unused == set()


def _made_keys() -> set[str]:
    """The keys derived from the names of groups and commands: help texts, and deletions."""
    apps: dict[str, Any] = {name: get_command(load(entry)) for name, entry in COMMANDS.items()}
    made = {each.help for app in apps.values() for each in (app, *getattr(app, "commands", {}).values())}
    for name, app in apps.items():
        endings = {"delete": "deleted", "remove": "removed", "revoke": "revoked"}
        made |= {f"{name}.{end}" for command, end in endings.items() if command in getattr(app, "commands", {})}
    return made


@for_each("source", SOURCES, ids=lambda path: path.stem)
def test_a_module_names_only_keys_that_exist(source: Path) -> None:
    named = {
        word
        for word in literals(source)
        if re.fullmatch(
            r"(error|hint|run|kit|check|new|help|schema|up|chat|agents|events|bindings|rights|documents)\.\w+", word
        )
        and word not in ("run.created", "run.ended")  # types of records
    }
    assert named - set(ENGLISH) == set()


SPEAKING = {"print", "write", "note", "out", "echo", "_aside", "_say", "_dim", "_remark"}
"""Functions whose argument a person reads."""


@for_each("source", SOURCES, ids=lambda path: path.stem)
def test_a_module_prints_only_texts_of_the_catalogue(source: Path) -> None:
    said: list[str] = []
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in SPEAKING:
            pieces = [part for argument in node.args[:1] for part in _pieces(argument)]
            said += [piece for piece in pieces if re.search(r"[A-Za-z\u4e00-\u9fff]{2}", piece)]
    assert [words for words in said if words.strip(" :") != "bollard"] == []


def _pieces(argument: ast.expr) -> list[str]:
    """The words in an argument itself, not in its calls."""
    if isinstance(argument, ast.Constant):
        return [argument.value] if isinstance(argument.value, str) else []
    if isinstance(argument, ast.JoinedStr):
        return [piece for value in argument.values for piece in _pieces(value)]
    if isinstance(argument, ast.BinOp):
        return _pieces(argument.left) + _pieces(argument.right)
    return []


class Marked:
    """A catalogue whose sentences show their origin."""

    def __init__(self) -> None:
        self.language = "en_US"

    def __call__(self, key: str, /, **fields: object) -> str:
        return f"«{key}»"

    def __contains__(self, key: object) -> bool:
        return key in ENGLISH


def test_every_help_text_comes_from_the_catalogue() -> None:
    text = Marked()
    root = build(text)  # type: ignore[arg-type]
    ctx = typer.Context(root, obj=Shell(text=text, mode="text"))  # type: ignore[arg-type]
    commands = [root, *(root.get_command(ctx, name) for name in COMMANDS)]
    commands += [child for group in commands for child in getattr(group, "commands", {}).values()]
    assert len(commands) > len(COMMANDS) + 1
    for command in commands:
        for owner in (command, *command.get_params(typer.Context(command, parent=ctx))):
            assert owner.help is not None, owner.name
            assert owner.help.startswith("«"), (command.name, owner.name, owner.help)


@for_each(
    ("environment", "language"),
    [
        ({}, "en_US"),
        ({"LANG": "zh_CN.UTF-8"}, "zh_Hans"),
        ({"LANG": "en_GB.UTF-8"}, "en_US"),
        ({"LANG": "en_GB.UTF-8", "LC_ALL": "zh_TW.UTF-8"}, "zh_Hans"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en_US"),
        ({"LANG": "zh_CN.UTF-8", "BOLLARD_LANG": "en_US"}, "en_US"),
        ({"BOLLARD_LANG": "zh_Hans"}, "zh_Hans"),
        ({"LANG": "zh_CN.UTF-8", "BOLLARD_LANG": "klingon"}, "zh_Hans"),
    ],
)
def test_the_environment_chooses_the_language(environment: dict[str, str], language: str) -> None:
    assert choose_language(environment) == language


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_catalogue_knows_its_language(language: str) -> None:
    text: Text = load_text(language)
    assert text.language == language
    assert "bollard" in text
