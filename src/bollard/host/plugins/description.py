"""Reads the description of a plugin from its files, without running any of its code.

The description of a folder is its `manifest.yaml`. The description of a single file is the literal arguments of its
decorators. Anything else that the worker declares later has no consent and is not used.
"""

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from pydantic import ValidationError

from bollard.host.capabilities.capability import RISKS
from bollard.host.errors import InvalidRequest, caused_by
from bollard.host.limits import MIB, README_CHARACTERS
from bollard.host.plugins.tool_definitions import claims_of
from bollard.manifest.text import MANIFEST_NAME, ManifestError, load_manifest
from bollard.protocol import (
    AgentRunnerPermissions,
    FlowBits,
    JsonObject,
    JsonValue,
    PluginManifest,
    PluginMetadata,
    PluginRunner,
    PluginSandbox,
    PluginSpec,
    PluginTool,
    first_problem,
    limits,
)
from bollard.protocol.shape import problem_details

S = TypeVar("S", PluginRunner, PluginTool)
_SOURCE_BYTES: Final = 1 * MIB
"""A single file larger than this is not read."""
_LOCAL: Final = "local"
"""The author of every single file."""
_FILE_VERSION: Final = "0"
_RISK_CHARACTERS: Final = 40
"""Characters of an unknown risk that an error quotes."""
_HINT: Final = "`bollard plugin check` names everything that is wrong with a plugin"


class RequestedAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The access that a plugin requests and a person consents to. Lists are sorted, so equal requests are equal."""

    runners: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Each runner and its maximum permissions, such as `history.page`."""
    env: tuple[str, ...] = ()
    """Variables of the host's environment that its workers see."""
    tools: tuple[tuple[str, str], ...] = ()
    """Each tool and its claims (`claims_of`): its risk, and which flow bits it never has."""
    command: tuple[str, ...] = ()
    """The program that is the worker, and its arguments. Empty for a plugin in Python."""
    sandbox: PluginSandbox = msgspec.field(default_factory=PluginSandbox)
    """What its workers need beyond nothing."""

    def permissions_of(self, runner: str) -> frozenset[str] | None:
        """The maximum permissions of a runner; `None` for a runner without consent."""
        return next((frozenset(names) for name, names in self.runners if name == runner), None)

    def to_wire(self) -> JsonObject:
        body: JsonObject = {
            "runners": {name: [*names] for name, names in self.runners},
            "env": [*self.env],
            "tools": dict[str, JsonValue](self.tools),
        }
        if self.command:
            body["command"] = [*self.command]
        if (sandbox := self.sandbox.model_dump(mode="json", exclude_defaults=True)) != {}:
            body["sandbox"] = sandbox
        return body

    @staticmethod
    def from_wire(body: Any) -> "RequestedAccess":
        """The inverse of `to_wire`."""
        return RequestedAccess(
            runners=tuple(sorted((name, tuple(names)) for name, names in body["runners"].items())),
            env=tuple(body["env"]),
            tools=tuple(sorted(body["tools"].items())),
            command=tuple(body.get("command", ())),
            sandbox=PluginSandbox.from_wire(body.get("sandbox", {})),
        )


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """The declared identity of a plugin, and the access it requests."""

    author: str
    name: str
    version: str
    label: dict[str, str]
    description: dict[str, str] | None
    access: RequestedAccess
    definitions: tuple[tuple[str, str], ...] = ()
    """Each tool and the digest of its definition. Known in advance only for a runtime on another machine."""

    @property
    def plugin_id(self) -> str:
        return f"{self.author}/{self.name}"


def read_me(path: Path) -> str | None:
    """The text of a plugin's README, at most `README_CHARACTERS`; `None` if it has none."""
    file = path / "README.md"
    if not path.is_dir() or file.is_symlink() or not file.is_file():
        return None
    with file.open(encoding="utf-8", errors="replace") as opened:
        return opened.read(README_CHARACTERS)


def describe(path: Path) -> Description:
    """The description of a plugin's folder or file. Raises `InvalidRequest`."""
    return _describe_folder(path) if path.is_dir() else _describe_file(path)


def _invalid(
    file: str, problem: str, hint: str = _HINT, *, reason: str = "plugin_invalid", **details: Any
) -> InvalidRequest:
    return InvalidRequest(
        f"the plugin is invalid: {file}: {problem}",
        reason=reason,
        hint=hint,
        field="plugin",
        file=file,
        problem=problem,
        **details,
    )


def _describe_folder(folder: Path) -> Description:
    try:
        raw = load_manifest(folder)
    except ManifestError as error:
        details = dict[str, Any](error.details)
        if "place" in details:
            file, reason = f"{MANIFEST_NAME}, {error.place}", "manifest_unreadable"
            raise _invalid(file, error.problem, error.hint, reason=reason, **details) from error
        raise _invalid(MANIFEST_NAME, error.problem, error.hint, **details) from error
    spec = raw.get("spec")
    entries: JsonObject = spec if isinstance(spec, dict) else {}
    try:
        read: JsonObject = {"env": entries.get("env", []), **{key: entries.get(key) for key in ("command", "sandbox")}}
        frame: JsonObject = {**raw, "spec": read}
        manifest = PluginManifest.from_wire(frame)
    except ValidationError as error:
        field, problem = first_problem(error)
        wrong: JsonObject = {"field": field, "problem": problem, **problem_details(error)}
        raise _invalid(MANIFEST_NAME, f"{field}: {problem}", problems=[wrong]) from error
    runners = _entries(entries.get("runners"), PluginRunner, limits.RUNNERS_PER_PLUGIN, manifest.spec)
    tools = _entries(entries.get("tools"), PluginTool, limits.TOOLS_PER_PLUGIN, manifest.spec)
    access = RequestedAccess(
        runners=tuple(sorted((each.name, permission_names(each.permissions)) for each in runners)),
        env=tuple(sorted(set(manifest.spec.env))),
        tools=tuple(sorted((each.name, claims_of(each.risk, each.flow)) for each in tools)),
        command=manifest.spec.command or (),
        sandbox=_sorted(manifest.spec.sandbox or PluginSandbox()),
    )
    return _build(manifest.metadata, access, MANIFEST_NAME)


def _sorted(sandbox: PluginSandbox) -> PluginSandbox:
    """The same needs with sorted lists."""
    network, read, write = sandbox.network, sandbox.read, sandbox.write
    lists = {"read": tuple(sorted(set(read))), "write": tuple(sorted(set(write)))}
    names = {"network": tuple(sorted(set(network)))} if isinstance(network, tuple) else {}
    return sandbox.model_copy(update={**lists, **names})


def _build(metadata: PluginMetadata, access: RequestedAccess, file: str) -> Description:
    if not access.runners and not access.tools:
        raise _invalid(file, "it declares no usable runner or tool", reason="plugin_empty")
    return Description(
        author=metadata.author,
        name=metadata.name,
        version=metadata.version,
        label=dict(metadata.label),
        description=None if metadata.description is None else dict(metadata.description),
        access=access,
    )


def _entries(value: JsonValue, shape: type[S], limit: int, spec: PluginSpec) -> list[S]:
    """The valid entries, by name. Invalid ones are skipped; the worker reports their problems."""
    entries: dict[str, S] = {}
    for item in value[:limit] if isinstance(value, list) else ():
        try:
            entry = shape.from_wire(item)
        except ValidationError:
            continue
        if spec.entry_problem(entry.entry) is None:
            entries.setdefault(entry.name, entry)
    return list(entries.values())


def permission_names(permissions: AgentRunnerPermissions) -> tuple[str, ...]:
    """The permissions as sorted `family.name` strings."""
    families = permissions.model_dump().items()
    return tuple(sorted(f"{family}.{name}" for family, names in families for name in names))


# --- one file ---


def _describe_file(file: Path) -> Description:
    name = file.stem.lower() if file.stem.isascii() else file.stem
    if file.suffix != ".py" or file.stat().st_size > _SOURCE_BYTES:
        problem = f"it is not a Python file of at most {_SOURCE_BYTES} bytes"
        raise _invalid(file.name, problem, reason="plugin_not_python")
    try:
        tree = ast.parse(file.read_bytes(), file.name)
        metadata = PluginMetadata(author=_LOCAL, name=name, version=_FILE_VERSION, label={"en_US": name})
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        inner = _details(error)
        problem = f"it cannot be read: {inner['problem']}"
        raise _invalid(file.name, problem, problem_type="plugin.source", inner=inner) from error
    runners: dict[str, tuple[str, ...]] = {}
    tools: dict[str, str] = {}
    for function in tree.body:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in function.decorator_list:
                _read_decorator(file.name, function.name, decorator, runners, tools)
    access = RequestedAccess(runners=tuple(sorted(runners.items())), tools=tuple(sorted(tools.items())))
    return _build(metadata, access, file.name)


def _details(error: Exception) -> Mapping[str, Any]:
    if isinstance(error, ValidationError):
        return {"problem": first_problem(error)[1], **problem_details(error)}
    return caused_by(error)


def _read_decorator(
    file: str, function: str, decorator: ast.expr, runners: dict[str, tuple[str, ...]], tools: dict[str, str]
) -> None:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    kind = target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else ""
    if kind not in ("runner", "tool"):
        return
    values = _literals(file, function, decorator) if isinstance(decorator, ast.Call) else {}
    if kind == "runner":
        runners.setdefault(str(values.get("name", "default")), _permissions(file, function, values.get("permissions")))
    else:
        risk = values.get("risk")
        if risk is not None and risk not in RISKS:
            word, known = str(risk)[:_RISK_CHARACTERS], ", ".join(RISKS)
            named: Mapping[str, Any] = {"function": function, "risk": word, "known": known}
            problem = f"the risk {word!r} of {function} is none of {known}"
            raise _invalid(file, problem, problem_type="plugin.risk", **named)
        tools.setdefault(str(values.get("name", function)), claims_of(risk, _flow(values.get("flow"))))


def _literals(file: str, function: str, call: ast.Call) -> dict[str, Any]:
    """The arguments that need consent. They must be literals: a person consents before any code runs."""
    arguments = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    if call.args:
        arguments["name"] = call.args[0]
    values: dict[str, Any] = {}
    for name in ("name", "permissions", "risk"):
        if name in arguments:
            try:
                values[name] = ast.literal_eval(arguments[name])
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
                hint = "write a literal there, or make a folder with a manifest: `bollard plugin new`"
                named = {"argument": name, "function": function}
                problem = f"{name} of {function} is not a literal"
                raise _invalid(file, problem, hint, reason="plugin_literal", **named) from error
    if "flow" in arguments:
        values["flow"] = _flow_literal(arguments["flow"])
    return values


def _flow_literal(value: ast.expr) -> dict[str, Any] | None:
    """`{…}` or `FlowBits(…)` of literals. `None`, which claims nothing, for anything else."""
    try:
        if isinstance(value, ast.Call):
            return {str(each.arg): ast.literal_eval(each.value) for each in value.keywords}
        return dict(ast.literal_eval(value))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _flow(bits: dict[str, Any] | None) -> FlowBits | None:
    try:
        return None if bits is None else FlowBits.from_wire(bits)
    except ValidationError:
        return None


def _permissions(file: str, function: str, value: Any) -> tuple[str, ...]:
    try:
        permissions: JsonObject = {family: [*names] for family, names in dict(value or {}).items()}
        return permission_names(AgentRunnerPermissions.from_wire(permissions))
    except (TypeError, ValueError) as error:
        inner = _details(error)
        problem = f"permissions of {function}: {inner['problem']}"
        values: Mapping[str, Any] = {"problem_type": "plugin.permissions", "function": function, "inner": inner}
        raise _invalid(file, problem, **values) from error
