"""What a plugin says of itself, read from its files. Runs none of its code: that is what this is asked before.

A folder says it in `manifest.yaml`. A single file says it in the arguments of its decorators, where they are plain
values; whatever else its worker declares later was not consented to and is not used.
"""

import ast
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from pydantic import ValidationError

from bollard.host.errors import InvalidRequest
from bollard.host.limits import MIB
from bollard.host.plugins.tool_definitions import claims_of
from bollard.protocol import (
    AgentRunnerPermissions,
    FlowBits,
    JsonObject,
    JsonValue,
    PluginManifest,
    PluginMetadata,
    PluginRunner,
    PluginTool,
    Shape,
    first_problem,
    limits,
)
from bollard.wire.manifest_text import ManifestError, load_manifest

S = TypeVar("S", bound=Shape)
_SOURCE_BYTES: Final = 1 * MIB
"""A single file larger than this is not read."""
_LOCAL: Final = "local"
"""The author of every single file."""
_FILE_VERSION: Final = "0"
_HINT: Final = "`bollard plugin check` names everything that is wrong with a plugin"


class RequestedAccess(msgspec.Struct, frozen=True, kw_only=True):
    """What a plugin wants: what somebody consents to. Every list is sorted, so that equal wishes are equal."""

    runners: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Each runner, and the most it may be granted: `history.page` and so on."""
    env: tuple[str, ...] = ()
    """Variables of the host's environment that its workers see."""
    tools: tuple[tuple[str, str], ...] = ()
    """Each tool and what is claimed of it: how risky it is, and which way data never flows through it."""

    def permissions_of(self, runner: str) -> frozenset[str] | None:
        """What a runner may be granted; `None` for one that nobody was shown."""
        return next((frozenset(names) for name, names in self.runners if name == runner), None)

    def to_wire(self) -> JsonObject:
        return {
            "runners": {name: [*names] for name, names in self.runners},
            "env": [*self.env],
            "tools": dict[str, JsonValue](self.tools),
        }

    @staticmethod
    def from_wire(body: Any) -> "RequestedAccess":
        """What `to_wire` gave to the store."""
        return RequestedAccess(
            runners=tuple(sorted((name, tuple(names)) for name, names in body["runners"].items())),
            env=tuple(body["env"]),
            tools=tuple(sorted(body["tools"].items())),
        )


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """Who a plugin says it is, and what it asks for."""

    author: str
    name: str
    version: str
    label: dict[str, str]
    description: dict[str, str] | None
    asked: RequestedAccess
    definitions: tuple[tuple[str, str], ...] = ()
    """Each tool and the digest of its definition, where its code said it already: on another machine."""

    @property
    def plugin_id(self) -> str:
        return f"{self.author}/{self.name}"


def describe(path: Path) -> Description:
    """The description of a plugin's folder or file. Raises `InvalidRequest`."""
    return _of_folder(path) if path.is_dir() else _of_file(path)


def _wrong(place: str, problem: str, hint: str = _HINT) -> InvalidRequest:
    return InvalidRequest(f"the plugin cannot be used: {place}: {problem}", hint=hint, field="plugin")


def _of_folder(folder: Path) -> Description:
    try:
        raw = load_manifest(folder)
    except ManifestError as error:
        raise _wrong(error.place, error.problem, error.hint) from error
    spec = raw.get("spec")
    entries: JsonObject = spec if isinstance(spec, dict) else {}
    try:
        frame: JsonObject = {**raw, "spec": {"env": entries.get("env", [])}}
        manifest = PluginManifest.from_wire(frame)
    except ValidationError as error:
        field, problem = first_problem(error)
        raise _wrong("manifest.yaml", f"{field}: {problem}") from error
    runners = _entries(entries.get("runners"), PluginRunner, limits.RUNNERS_PER_PLUGIN)
    tools = _entries(entries.get("tools"), PluginTool, limits.TOOLS_PER_PLUGIN)
    asked = RequestedAccess(
        runners=tuple(sorted((each.name, permission_names(each.permissions)) for each in runners)),
        env=tuple(sorted(set(manifest.spec.env))),
        tools=tuple(sorted((each.name, claims_of(each.risk, each.flow)) for each in tools)),
    )
    return _described(manifest.metadata, asked)


def _described(metadata: PluginMetadata, asked: RequestedAccess) -> Description:
    if not asked.runners and not asked.tools:
        raise _wrong("manifest.yaml", "it has no runner and no tool that could be used")
    return Description(
        author=metadata.author,
        name=metadata.name,
        version=metadata.version,
        label=dict(metadata.label),
        description=None if metadata.description is None else dict(metadata.description),
        asked=asked,
    )


def _entries(value: JsonValue, shape: type[S], most: int) -> list[S]:
    """Those that are in order. A broken one hides no other; the worker says what is wrong with it."""
    found: dict[str, S] = {}
    for entry in value[:most] if isinstance(value, list) else ():
        try:
            read = shape.from_wire(entry)
        except ValidationError:
            continue
        found.setdefault(getattr(read, "name", ""), read)
    return list(found.values())


def permission_names(permissions: AgentRunnerPermissions) -> tuple[str, ...]:
    """Each as `family.name`, sorted."""
    families = permissions.model_dump().items()
    return tuple(sorted(f"{family}.{name}" for family, names in families for name in names))


# --- one file ---


def _of_file(file: Path) -> Description:
    name = file.stem.lower() if file.stem.isascii() else file.stem
    if file.suffix != ".py" or file.stat().st_size > _SOURCE_BYTES:
        raise _wrong(file.name, f"is not a Python file of at most {_SOURCE_BYTES} bytes")
    try:
        tree = ast.parse(file.read_bytes())
        metadata = PluginMetadata(author=_LOCAL, name=name, version=_FILE_VERSION, label={"en_US": name})
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _wrong(file.name, f"cannot be read: {_said(error)}") from error
    runners: dict[str, tuple[str, ...]] = {}
    tools: dict[str, str] = {}
    for function in tree.body:
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in function.decorator_list:
                _declared(file.name, function.name, decorator, runners, tools)
    asked = RequestedAccess(runners=tuple(sorted(runners.items())), tools=tuple(sorted(tools.items())))
    return _described(metadata, asked)


def _said(error: Exception) -> str:
    return first_problem(error)[1] if isinstance(error, ValidationError) else str(error) or type(error).__name__


def _declared(
    place: str, function: str, decorator: ast.expr, runners: dict[str, tuple[str, ...]], tools: dict[str, str]
) -> None:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    what = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    if what not in ("runner", "tool"):
        return
    given = _literals(place, function, decorator) if isinstance(decorator, ast.Call) else {}
    if what == "runner":
        runners.setdefault(str(given.get("name", "default")), _permissions(place, function, given.get("permissions")))
    else:
        claims = claims_of(str(given.get("risk") or "unknown"), _flow(given.get("flow")))
        tools.setdefault(str(given.get("name", function)), claims)


def _literals(place: str, function: str, call: ast.Call) -> dict[str, Any]:
    """The arguments that matter here; what is computed cannot be shown to anybody before it runs."""
    named = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    if call.args:
        named["name"] = call.args[0]
    found: dict[str, Any] = {}
    for name in ("name", "permissions", "risk"):
        if name in named:
            try:
                found[name] = ast.literal_eval(named[name])
            except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
                hint = "write a plain value there, or make a folder with a manifest: `bollard plugin new`"
                raise _wrong(place, f"{name} of {function} is computed, so nobody can be shown it", hint) from error
    if "flow" in named:
        found["flow"] = _flow_literal(named["flow"])
    return found


def _flow_literal(value: ast.expr) -> dict[str, Any] | None:
    """`{…}` or `FlowBits(…)` of plain values. What cannot be read is no claim."""
    try:
        if isinstance(value, ast.Call):
            return {str(each.arg): ast.literal_eval(each.value) for each in value.keywords}
        return dict(ast.literal_eval(value))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _flow(given: dict[str, Any] | None) -> FlowBits | None:
    try:
        return None if given is None else FlowBits.from_wire(given)
    except ValidationError:
        return None


def _permissions(place: str, function: str, given: Any) -> tuple[str, ...]:
    try:
        wanted: JsonObject = {family: [*names] for family, names in dict(given or {}).items()}
        return permission_names(AgentRunnerPermissions.from_wire(wanted))
    except (TypeError, ValueError) as error:
        raise _wrong(place, f"permissions of {function}: {_said(error)}") from error
