"""Problems of fields: each type that a model of the host can report has a Chinese text, filled from its details."""

import ast
import errno
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError
from tests.chinese import english_in
from tests.tables import for_each

import bollard.host
from bollard.cli.language import load_text, read_texts, run_error
from bollard.cli.plugins.check import finding_of
from bollard.cli.plugins.inspector import inspect_plugin
from bollard.confine.probe import Demand, Findings, choose_confinement
from bollard.host.agents.binding import Binding
from bollard.host.agents.config_form import config_from_wire
from bollard.host.agents.policies import policy_from_wire
from bollard.host.audit.verification import ProblemKind
from bollard.host.egress.client import EgressClient
from bollard.host.errors import InvalidRequest, NotFound, SettingsError, StorageUnavailable, caused_by
from bollard.host.http.bodies import PostEvent, parsed
from bollard.manifest import PluginLoadError, read_manifest
from bollard.protocol import (
    FormItem,
    FormType,
    JsonObject,
    PluginIdentity,
    PluginManifest,
    PluginRunner,
    PluginTool,
    Strict,
)
from bollard.trust.chain import FaultKind
from bollard.wire.addresses import UrlReason
from bollard.wire.errors import FrameFault

PROBLEMS = read_texts("zh_Hans/problems")
HOST = Path(bollard.host.__file__).parent
_LENGTHS = {"too_short", "too_long"}
_BOUNDS = {"greater_than", "greater_than_equal", "less_than", "less_than_equal"}
TYPES: Mapping[str, set[str]] = {
    "bool": {"bool_type", "bool_parsing"},
    "dataclass": {"dataclass_type"},
    "dataclass-args": {"missing", "unexpected_keyword_argument"},
    "definition-ref": {"recursion_loop"},
    "dict": {"dict_type", *_LENGTHS},
    "float": {"float_type", "float_parsing", "finite_number", *_BOUNDS},
    "int": {"int_type", "int_from_float", "int_parsing", "int_parsing_size", *_BOUNDS},
    "list": {"list_type", *_LENGTHS},
    "literal": {"literal_error"},
    "model": {"model_type", "model_attributes_type"},
    "model-fields": {"missing", "extra_forbidden", "invalid_key"},
    "none": {"none_required"},
    "str": {"string_type", "string_unicode", "string_too_short", "string_too_long", "string_pattern_mismatch"},
    "tagged-union": {"union_tag_invalid", "union_tag_not_found"},
    "tuple": {"tuple_type", *_LENGTHS},
    # These report the problems of the schemas inside them, or none; functions are read below.
    **{kind: set() for kind in ("any", "dataclass-field", "default", "definitions", "function-after")},
    **{kind: set() for kind in ("function-before", "json-or-python", "model-field", "no-info", "nullable")},
    **{kind: set() for kind in ("chain", "function-wrap")},
}
"""The problems that a validator of each kind reports."""


def _subclasses(kind: type[Strict]) -> Iterator[type[Strict]]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)


def _schemas(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if isinstance(schema.get("type"), str):
            yield schema
        for name, value in schema.items():
            if name not in ("serialization", "metadata", "json_schema_input_schema"):
                yield from _schemas(value)
    elif isinstance(schema, list | tuple):
        for value in schema:
            yield from _schemas(value)


@cache
def _all_schemas() -> list[dict[str, Any]]:
    """The validators of every model of the host."""
    for module in pkgutil.walk_packages([str(HOST)], "bollard.host."):
        if not module.name.startswith("bollard.host.store.migrations"):
            importlib.import_module(module.name)
    models = {each for each in _subclasses(Strict) if each.__module__.startswith("bollard.host.")}
    assert len(models) > 10
    return [schema for model in models for schema in _schemas(model.__pydantic_core_schema__)]


def test_every_problem_of_the_validator_has_a_chinese_text() -> None:
    kinds = {schema["type"] for schema in _all_schemas()}
    assert not (unknown := kinds - set(TYPES)), f"add the problems that they report: {unknown}"
    reported = {problem for kind in kinds for problem in TYPES[kind]}
    reported |= {schema["custom_error_type"] for schema in _all_schemas() if "custom_error_type" in schema}
    assert reported - set(PROBLEMS) == set()


@pytest.mark.full
def test_every_problem_of_the_host_has_a_chinese_text() -> None:
    named: set[str] = set()
    for path in HOST.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("PydanticCustomError", "ConfigProblem"):
                named |= {str(first.value) for first in node.args[:1] if isinstance(first, ast.Constant)}
    assert len(named) > 10
    assert named - set(PROBLEMS) == set()


def test_every_type_of_a_form_has_a_chinese_text() -> None:
    wanted = {f"form.{kind}" for kind in get_args(FormType) if kind not in ("select", "multi-select", "display")}
    assert wanted == {key for key in PROBLEMS if key.startswith("form.")}


def test_no_validator_raises_a_sentence_without_a_type() -> None:
    """A `ValueError` would reach a reader in English."""
    functions = [schema["function"] for schema in _all_schemas() if schema["type"].startswith("no-info")]
    assert len(functions) > 10
    ours = [each for each in functions if each.__module__.startswith("bollard.host.") and each.__name__ != "<lambda>"]
    for function in ours:
        source = textwrap.dedent(inspect.getsource(function))
        assert "raise ValueError" not in source, function.__qualname__


def test_every_fault_of_json_has_a_chinese_text() -> None:
    assert {"json.at", *(f"json.{fault}" for fault in get_args(FrameFault))} == {
        key for key in PROBLEMS if key.startswith("json.")
    }


def test_an_error_of_the_operating_system_is_explained_in_chinese() -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    details: JsonObject = {"reason": "blobs_unusable", **caused_by(full)}
    message, _ = load_text("zh_Hans").host_error("storage_unavailable", details, "the blobs cannot be used: …", "")
    assert message == "无法使用文件存储：磁盘已满"
    named = {key.removeprefix("os.") for key in PROBLEMS if key.startswith("os.")}
    assert named - set(errno.errorcode.values()) == set()


def _refusal(action: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        action()
    return caught.value


LONG_FORM = [
    FormItem(name="steps", type="integer", label={"en_US": "Steps"}),
    FormItem(name="tone", type="select", label={"en_US": "Tone"}, options=[{"value": "warm", "label": {"en_US": "w"}}]),
    FormItem(name="key", type="secret", label={"en_US": "Key"}, required=True),
]


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (lambda: Binding.read({"binding_id": "a"}), "binding.agent_id：缺少此字段"),
        (lambda: Binding.read({"binding_id": "A", "agent_id": "b"}), "binding.binding_id：格式不对"),
        (lambda: Binding.read({"binding_id": "a", "agent_id": "b", "priority": 5000}), "priority：不能大于 1000"),
        (lambda: Binding.read({"binding_id": "a", "agent_id": "b", "x": 1}), "binding.x：没有这个字段"),
        (lambda: Binding.read({"binding_id": "a", "agent_id": "b", "scope": {"actor": "ann"}}), "应写成 type:id"),
        (lambda: policy_from_wire({"access": {"permissions": {"cats": []}}}), "没有操作类别 cats"),
        (lambda: policy_from_wire({"gate": {"talk": "some"}}), "policy.gate.talk：可选的值：'everyone', 'listed'"),
        (lambda: parsed(PostEvent, {"source": "door"}), "type：缺少此字段"),
        (
            lambda: config_from_wire({"steps": "x", "tone": "cold", "more": 1}, LONG_FORM),
            "config.more：没有这个字段；表单有 steps, tone, key；config.steps：应为 -2^53 到 2^53 之间的整数；"
            'config.tone：应为其中之一："warm"；config.key：必须填写',
        ),
    ],
)
def test_a_wrong_field_is_explained_in_chinese_only(action: Any, said: str) -> None:
    error = _refusal(action)
    message, hint = load_text("zh_Hans").host_error(error.code, error.details, error.message, error.hint)
    assert said in message
    assert error.message not in message
    assert not re.search(r"[a-z]+ [a-z]+ [a-z]+", message), "words of an English sentence"
    assert hint


def test_an_unknown_problem_is_quoted_from_the_host() -> None:
    details: JsonObject = {"reason": "invalid_field", "field": "a.b", "problem": "odd", "problem_type": "of_tomorrow"}
    message, _ = load_text("zh_Hans").host_error("invalid_argument", details, "a.b: odd", "")
    assert message == "a.b：“odd”（原文）"


def test_a_message_of_a_library_is_quoted_in_chinese_and_plain_in_english() -> None:
    details: JsonObject = {"reason": "postgres_unusable", **caused_by(ValueError("password authentication failed"))}
    fault = ("storage_unavailable", details, "PostgreSQL cannot be used: password authentication failed", "")
    assert load_text("zh_Hans").host_error(*fault)[0] == "无法使用 PostgreSQL：“password authentication failed”（原文）"
    assert load_text("en_US").host_error(*fault)[0] == fault[2]


def test_the_cause_of_an_error_is_explained_by_its_own_code_and_details() -> None:
    inner = StorageUnavailable(
        "a.db cannot be opened: Permission denied",
        reason="file_not_opened",
        file="a.db",
        **caused_by(PermissionError(errno.EACCES, "Permission denied")),
    )
    details: JsonObject = {"reason": "call_not_recorded", **caused_by(inner)}
    message, _ = load_text("zh_Hans").host_error("audit_unavailable", details, "…", "")
    assert message == "无法记录该调用：无法打开 a.db：没有访问权限"
    assert caused_by(NotFound("there is no such run", reason="no_run"))["problem"] == "there is no such run"


def test_an_exception_in_a_field_is_explained_in_the_language() -> None:
    taken = OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
    fields: dict[str, object] = {"host": "192.0.2.1", "port": 1, "detail": taken}
    assert load_text("zh_Hans")("error.bind", **fields) == "无法在 192.0.2.1:1 上监听：本机没有该地址"
    assert load_text("en_US")("error.bind", **fields).endswith("Cannot assign requested address")


def test_no_error_repeats_the_message_of_another_without_its_type() -> None:
    """`caused_by` keeps the type, the code and the details by which the problem is explained in Chinese."""
    repeated = re.compile(r"\bproblem=(str\(error\)|error\.(message|strerror))")
    for path in HOST.rglob("*.py"):
        for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
            assert "_log." in line or not repeated.search(line), f"{path}:{number}"


def test_every_problem_of_a_plugin_has_a_chinese_text() -> None:
    """The problems that the manifest's own shapes report, and those that the loader names."""
    shapes = (PluginManifest, PluginRunner, PluginTool, PluginIdentity)
    for shape in shapes:
        shape.model_rebuild()  # shapes are built on first use
    schemas = [schema for shape in shapes for schema in _schemas(shape.__pydantic_core_schema__)]
    assert not (unknown := {schema["type"] for schema in schemas} - set(TYPES)), f"add what they report: {unknown}"
    assert {problem for schema in schemas for problem in TYPES[schema["type"]]} - set(PROBLEMS) == set()
    used: set[str] = set()
    sources = [*(HOST.parent / "manifest").rglob("*.py"), *(HOST.parent / "runtime").rglob("*.py")]
    for path in [*sources, *(HOST / "plugins" / name for name in ("description.py", "fleet.py", "placement.py"))]:
        used |= set(re.findall(r'"((?:plugin|yaml)\.[a-z_]+)"', path.read_text("utf-8")))
    used |= {"plugin.other_permissions", "plugin.other_capabilities"}
    used -= {"plugin.quarantined"}  # a record
    assert used == {key for key in PROBLEMS if key.startswith(("plugin.", "yaml."))}
    source = (HOST.parent / "protocol" / "manifest.py").read_text("utf-8")
    assert set(re.findall(r'PydanticCustomError\(\s*"(\w+)"', source)) - set(PROBLEMS) == set()


BROKEN_PLUGINS: Mapping[str, tuple[str, str]] = {
    "spec: [1, 2": ("PL03", ""),
    "a: &x 1\nb: *x": ("PL03", "不能使用别名"),
    "a: 1\na: 2": ("PL03", "键 a 重复"),
    "- 1": ("PL03", "应为映射"),
    "apiVersion: bollard/v2": ("PL04", "可选的值：'bollard/v1'"),
}


@for_each(("manifest", "found"), list(BROKEN_PLUGINS.items()))
def test_a_broken_manifest_is_explained_in_chinese(manifest: str, found: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "manifest.yaml").write_text(manifest)
    with pytest.raises(PluginLoadError) as caught:
        read_manifest(tmp_path)
    problem = caught.value.problem
    said = finding_of(problem, load_text("zh_Hans")).problem
    assert problem.rule == found[0]
    assert found[1] in said
    assert ("（原文）" in said) == (found[1] == ""), "only PyYAML's own sentence is quoted"


def test_the_end_of_a_run_is_explained_in_chinese_and_quotes_only_runner_and_worker() -> None:
    chinese, ends = load_text("zh_Hans"), [key for key in read_texts("zh_Hans/reasons") if key.startswith("run_ended.")]
    said = {key: run_error(key[10:], "it broke", {}, chinese) for key in ends}
    quoted = {key for key, sentence in said.items() if "it broke" in sentence}
    assert quoted == {"run_ended.runner.error", "run_ended.runner.protocol", "run_ended.host.overloaded"}
    assert all(said[key].endswith("“it broke”（原文）") for key in quoted)
    strikes = {"problem_type": "run.strikes", "count": 3, "fault": "envelope"}
    assert run_error("runner.protocol", "the worker broke …", strikes, chinese) == (
        "工作进程违反了协议：共 3 次，最近一次的类型是 envelope"
    )
    assert run_error("runner.error", "模型没有回答", {}, chinese) == "模型没有回答", "a Chinese sentence is not quoted"


EXPLAINED = {
    "DeclarationError",
    "KeyFileError",
    "ProxyFailed",
    "UnreadableProof",
    "_Refused",
    "_StreamFault",
    "_typed",
    "fault",
    "failed",
    "why",
}
"""Calls that give a sentence of ours a type."""
TYPED = re.compile(r"[a-z_]+\.[a-z_]+")


def test_every_sentence_with_a_type_has_a_chinese_text_and_every_text_is_used() -> None:
    named, words = set[str](), set[str]()
    for path in HOST.parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words.add(node.value)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in EXPLAINED:
                given = [each.value for each in node.args if isinstance(each, ast.Constant)]
                named |= {each for each in given if isinstance(each, str) and TYPED.fullmatch(each)}
    assert len(named) > 100
    assert named - set(PROBLEMS) == set()
    families = {key.partition(".")[0] for key in named} - {"os", "plugin", "workers"}  # some of these are composed
    texts = {key for key in PROBLEMS if key.partition(".")[0] in families and not key.endswith(".hint")}
    assert texts - words == set(), "no sentence has these types"
    assert {f"address.{reason}" for reason in (*get_args(UrlReason), "url_own_network")} == {
        key for key in PROBLEMS if key.startswith("address.")
    }


@for_each(
    ("source", "said"),
    [
        ("@runner\nasync def run(ctx): ...", "使用 @runner 时没有写参数"),
        ("@runner(label='x')\ndef run(ctx): ...", "run() 不是 async 函数"),
        ("@runner(label='x')\nasync def run(): ...", "run() 无法只用运行的上下文来调用"),
        ("@runner(label='x')\nclass A: ...", "类 A 没有 run 方法"),
        ("@runner(label='x', capabilities=['fly'])\nasync def run(ctx): ...", "没有能力 fly；可用的有 streaming"),
        ("@runner(label='x', permissions={'cats': []})\nasync def run(ctx): ...", "permissions.cats：没有这个字段"),
        ("@runner(label='x', name='A B')\nasync def run(ctx): ...", "：格式不对，应匹配"),
        ("@runner(label='x', config=int)\nasync def run(ctx): ...", "配置 'int' 不是 pydantic 模型"),
        ("@tool\ndef add(a: int) -> int: ...", "使用 @tool 时没有写括号"),
        ("@tool()\ndef add(a: int) -> int: ...", "没有描述；请写文档字符串"),
        ("@tool(description='x')\ndef add(a) -> int: ...", "参数 a 没有类型"),
        ("@tool(description='x')\ndef add(*a: int) -> int: ...", "参数 *a: int 不能按名称传入"),
        ("@tool(description='x')\ndef add(a: 'Gone') -> int: ...", "无法解析类型标注：“name 'Gone'"),
        ("@tool(description='x')\ndef add(a: int):\n    yield a", "生成器不能用作工具"),
    ],
)
def test_a_declaration_that_cannot_work_is_explained_in_chinese(source: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "odd.py"
    file.write_text(f"from bollard.sdk import runner, tool\n\n{source}\n", encoding="utf-8")
    found = inspect_plugin(file, (), load_text("zh_Hans"), timeout_s=60.0).problems
    sentences = [finding_of(problem, load_text("zh_Hans")).problem for problem in found]
    assert any(said in sentence for sentence in sentences), sentences
    assert english_in(" ".join(sentences)) == []


def test_the_line_of_a_broken_manifest_is_named_in_chinese(tmp_path: Path) -> None:
    (tmp_path / "manifest.yaml").write_text("a: 1\nb: 2\na: 3\n")
    with pytest.raises(PluginLoadError) as caught:
        read_manifest(tmp_path)
    assert finding_of(caught.value.problem, load_text("zh_Hans")).field == "第 3 行"
    assert finding_of(caught.value.problem, load_text("en_US")).field == "line 3"


def test_details_of_a_stranger_never_break_a_sentence() -> None:
    chinese = load_text("zh_Hans")
    for details in ({"inner": "x"}, {"seconds": "x"}, {"problems": ["x"]}, {"problems": [{}]}, {"cause": {}}):
        odd: JsonObject = {"problem": "odd", "problem_type": "net.late", **details}
        assert chinese.problem(odd) == "“odd”（原文）"


def test_every_fault_of_the_log_has_a_chinese_text() -> None:
    kinds = {f"log.{kind}" for kind in (*get_args(FaultKind), *get_args(ProblemKind))}
    assert kinds | {"log.at", "log.row"} == {key for key in PROBLEMS if key.startswith("log.")}


def test_a_broken_end_of_the_log_is_explained_in_chinese() -> None:
    details: JsonObject = {"reason": "tail_changed", "problem": "its data was changed"}
    details |= {"problem_type": "log.data_edited", "chain": "c1", "position": 7, "name": "c1:7"}
    message, _ = load_text("zh_Hans").host_error("log_broken", details, "…", "")
    assert message == "链 c1 的第 7 条记录被改动或丢失：它的数据被改动"


@for_each(
    ("demand", "findings"),
    [
        ("off", Findings()),
        ("any", Findings()),
        ("any", Findings(tried=True)),
        ("bubblewrap", Findings(tried=True, processes="user")),
        ("any", Findings(tried=True, processes="user")),
        ("any", Findings(tried=True, processes="user", landlock=1)),
        ("any", Findings(tried=True, processes="user", landlock=1, seccomp=True)),
    ],
)
def test_a_missing_confinement_is_explained_in_chinese(demand: Demand, findings: Findings) -> None:
    confinement = choose_confinement(demand, findings)
    assert confinement.level is None
    assert {f"sandbox.{confinement.missing}", f"sandbox.{confinement.missing}.hint"} <= set(PROBLEMS)


def test_every_problem_of_a_request_has_a_chinese_text() -> None:
    used = {
        word
        for path in (HOST.parent / "host", HOST.parent / "cli")
        for file in path.rglob("*.py")
        for word in re.findall(r'"(net\.[a-z_]+)"', file.read_text("utf-8"))
    }
    assert used == {key for key in PROBLEMS if key.startswith("net.")}


@pytest.mark.parametrize("entry", ["10.1.0.0/99", "a b", "host:0"])
def test_an_invalid_entry_of_a_setting_is_named(entry: str) -> None:
    with pytest.raises(SettingsError) as caught:
        EgressClient.of_setting(["chat.internal", entry])
    error = caught.value
    assert repr(entry) in error.message
    message, _ = load_text("zh_Hans").host_error(error.code, error.details, error.message, error.hint)
    assert message == f"egress_allow 中的条目 {entry} 无效"


def test_the_details_of_a_problem_never_contain_the_value() -> None:
    with pytest.raises(ValidationError):
        Binding.from_wire({"binding_id": "s3cret value", "agent_id": "b"})
    error = _refusal(lambda: Binding.read({"binding_id": "s3cret value", "agent_id": "b"}))
    assert "s3cret" not in str(error.details)
