"""Loads one plugin into this process: a folder with a manifest, or a single Python file.

A bad entry becomes a problem and does not hide the others.
"""

import dataclasses
import importlib
import importlib.util
import json
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import cast

from pydantic import ValidationError

from bollard.manifest import ManifestReading, PluginLoadError, Problem, read_manifest
from bollard.protocol import (
    AgentRunnerDiscovery,
    FlowBits,
    JsonObject,
    JsonValue,
    PluginIdentity,
    PluginRunner,
    PluginTool,
    ToolDefinition,
    first_problem,
    limits,
)
from bollard.protocol.shape import problem_details
from bollard.runtime.plugin_folder import digest_of, is_from, make_importable
from bollard.runtime.problems import explain_unsendable, make_sendable
from bollard.sdk import (
    DeclarationError,
    RunnerDeclaration,
    ToolDeclaration,
    declaration_of,
    runner,
    tool,
    tool_declaration_of,
)
from bollard.sdk.errors import defer_declaration_errors, describe_error


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRunner:
    """A usable runner and its discovery entry."""

    discovery: AgentRunnerDiscovery
    declaration: RunnerDeclaration


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTool:
    """A usable tool and its definition."""

    definition: ToolDefinition
    declaration: ToolDeclaration


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPlugin:
    """A loaded plugin: its usable runners and tools, and the problems of the other entries."""

    identity: PluginIdentity
    runners: Mapping[str, LoadedRunner]
    tools: Mapping[str, LoadedTool]
    problems: tuple[Problem, ...]


def load_plugin(path: Path) -> LoadedPlugin:
    """Load the usable part of a plugin. Raises `PluginLoadError` if nothing of it is usable."""
    try:
        path = path.resolve()
    except (OSError, RuntimeError) as error:  # a link loop
        hint, details = "name a plugin folder or a .py file", _typed("os.ELOOP")
        raise PluginLoadError(Problem("PL01", path.name, "path", "cannot be followed", hint, details)) from error
    if path.is_dir():
        plugin = _load_folder(path)
    elif path.is_file() and path.suffix == ".py":
        plugin = _load_file(path)
    else:
        problem, kind = "does not exist", "os.ENOENT"
        if path.exists():
            problem, kind = "is not a folder and not a Python file", "plugin.not_a_plugin"
        hint = "name a plugin folder or a .py file"
        raise PluginLoadError(Problem("PL01", path.name, "path", problem, hint, _typed(kind)))
    if not plugin.runners and not plugin.tools:
        hint = "decorate a function with @runner, or name it in manifest.yaml"
        nothing = Problem("PL06", path.name, "spec", "no usable runner or tool", hint, _typed("plugin.nothing"))
        return dataclasses.replace(plugin, problems=(*plugin.problems, nothing))
    return plugin


def _typed(problem_type: str, **values: JsonValue) -> JsonObject:
    return {"problem_type": problem_type, **values}


# --- a folder with a manifest ---


def _load_folder(folder: Path) -> LoadedPlugin:
    reading = read_manifest(folder)
    if reading.command:
        hint = "start this program with the connection in BOLLARD_CHANNEL_FD, as `bollard plugin run` does"
        problem = f"the worker is {shlex.join(reading.command)}, not a plugin in Python"
        details = _typed("plugin.program", command=shlex.join(reading.command))
        raise PluginLoadError(Problem("PL04", "manifest.yaml", "spec.command", problem, hint, details))
    make_importable(folder)
    problems = list(reading.problems)
    identity = PluginIdentity(
        author=reading.metadata.author,
        name=reading.metadata.name,
        version=reading.metadata.version,
        digest=digest_of(folder),
    )
    runners: dict[str, LoadedRunner] = {}
    for entry in reading.runners:
        if (declaration := _read_runner(folder, entry, problems)) is not None:
            _offer_runner(runners, identity, declaration, problems)
    return _build_plugin(identity, runners, _folder_tools(folder, reading, problems), problems)


def _folder_tools(folder: Path, reading: ManifestReading, problems: list[Problem]) -> dict[str, LoadedTool]:
    tools: dict[str, LoadedTool] = {}
    for entry in reading.tools:
        found = _resolve(folder, entry.name, entry.entry, problems)
        if found is not None and (declaration := _read_tool(entry, found, problems)) is not None:
            tools[entry.name] = LoadedTool(definition=_build_definition(declaration, entry), declaration=declaration)
    return tools


def _resolve(folder: Path, where: str, entry: str | None, problems: list[Problem]) -> object | None:
    def broken(rule: str, problem: str, hint: str, details: JsonObject) -> None:
        problems.append(Problem(rule, where, "entry", problem, hint, details))

    module_name, _, attribute = (entry or "").partition(":")
    try:
        with defer_declaration_errors():
            module = importlib.import_module(module_name)
        ours = is_from(folder, module)
        found = getattr(module, attribute, None)
    except BaseException as error:  # noqa: BLE001 -- plugin code runs here; its errors become problems of the plugin
        raised = describe_error(error)
        details = _typed("plugin.import", module=module_name, inner={"problem": raised})
        hint = "fix the module; entries of other modules are still offered"
        broken("PL11", f"{module_name} cannot be imported: {raised}", hint, details)
        return None
    if not ours:
        problem = f"{module_name} is a module of Python or of a package, not of this plugin"
        broken("PL11", problem, "give the plugin's module another name", _typed("plugin.module", module=module_name))
        return None
    if found is None:
        details = _typed("plugin.no_attribute", module=module_name, attribute=attribute)
        broken("PL12", f"{module_name} has no {attribute}", f"define it, or correct the entry {entry!r}", details)
    return found


def _read_runner(folder: Path, entry: PluginRunner, problems: list[Problem]) -> RunnerDeclaration | None:
    """Find the runner of a manifest entry, and merge the entry with the decorator."""
    found = _resolve(folder, entry.name, entry.entry, problems)
    if found is None:
        return None
    try:
        declaration = declaration_of(found) or declaration_of(runner(name=entry.name, label=entry.label)(found))
    except DeclarationError as error:
        problems.append(_declaration_problem("PL13", entry.name, "entry", error))
        return None
    except Exception as error:  # noqa: BLE001 -- whatever an odd object of the plugin raises
        hint = "write `async def run(ctx: RunContext)` and yield results, decorated with @runner"
        problems.append(Problem("PL13", entry.name, "entry", describe_error(error), hint))
        return None
    if declaration is None:
        return None
    hint = "the manifest's hold; write them once, in manifest.yaml"
    for field, problem, claimed in declaration.conflicts(entry):
        details = _typed(f"plugin.other_{field}", name=claimed)
        problems.append(Problem("PL15", entry.name, field, problem, hint, details))
    return declaration.under(entry)


def _declaration_problem(rule: str, where: str, field: str, error: DeclarationError) -> Problem:
    problem = make_sendable(f"{error.subject}: {error.problem}")
    details = cast("JsonObject", json.loads(make_sendable(json.dumps(error.details, ensure_ascii=False))))
    return Problem(rule, where, field, problem, make_sendable(error.hint), details)


def _read_tool(entry: PluginTool, found: object, problems: list[Problem]) -> ToolDeclaration | None:
    try:
        return tool_declaration_of(found) or tool_declaration_of(
            tool(name=entry.name, description=entry.description)(found)
        )
    except DeclarationError as error:
        problems.append(_declaration_problem("PL23", entry.name, "entry", error))
        return None
    except Exception as error:  # noqa: BLE001 -- whatever an odd object of the plugin raises
        hint = "a tool is a function with typed parameters, decorated with @tool"
        problems.append(Problem("PL23", entry.name, "entry", describe_error(error), hint))
        return None


def _build_definition(declaration: ToolDeclaration, entry: PluginTool) -> ToolDefinition:
    definition = declaration.definition()
    flow: FlowBits | None = entry.flow or definition.flow
    return definition.model_copy(
        update={
            "name": entry.name,
            "description": entry.description,
            "risk": entry.risk or definition.risk,
            "flow": flow,
        }
    )


# --- one file ---


def _load_file(file: Path) -> LoadedPlugin:
    # Lower-casing is unambiguous for ASCII only.
    name = file.stem.lower() if file.stem.isascii() else file.stem
    problems: list[Problem] = []
    try:
        identity = PluginIdentity(author="local", name=name, version="0", digest=digest_of(file))
    except ValidationError as error:
        _, problem = first_problem(error)
        hint = "name the file with letters a-z, digits, '.', '_' or '-'"
        raise PluginLoadError(Problem("PL04", file.name, "name", problem, hint, {**problem_details(error)})) from error
    module = _import_file(file)
    runners: dict[str, LoadedRunner] = {}
    tools: dict[str, LoadedTool] = {}
    for found in {id(found): found for found in vars(module).values()}.values():
        declared, offered = _read_declarations(found, problems)
        if declared is not None:
            _offer_runner(runners, identity, declared, problems)
        elif offered is not None:
            _offer_tool(tools, offered, problems)
    return _build_plugin(identity, runners, tools, problems)


def _read_declarations(
    found: object, problems: list[Problem]
) -> tuple[RunnerDeclaration | None, ToolDeclaration | None]:
    rule, decorator = "PL13", "@runner"
    try:
        declared = declaration_of(found)
        rule, decorator = "PL23", "@tool"
        return declared, tool_declaration_of(found)
    except DeclarationError as error:
        problems.append(_declaration_problem(rule, getattr(found, "__name__", error.subject), decorator, error))
        return None, None
    except Exception:  # noqa: BLE001 -- an object that raises on attribute access, such as a proxy
        return None, None


def _import_file(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"bollard_plugin_{file.stem}", file)
    if spec is None or spec.loader is None:
        details = _typed("plugin.not_importable")
        problem = Problem("PL11", file.name, "path", "cannot be imported", "rename it", details)
        raise PluginLoadError(problem)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    make_importable(file.parent)
    try:
        with defer_declaration_errors():
            spec.loader.exec_module(module)
    except BaseException as error:
        raised, hint = describe_error(error), "fix the error it names"
        details = _typed("plugin.import", module=file.name, inner={"problem": raised})
        problem = Problem("PL11", file.name, "module", f"cannot be imported: {raised}", hint, details)
        raise PluginLoadError(problem) from error
    return module


def _offer_runner(
    runners: dict[str, LoadedRunner], identity: PluginIdentity, declaration: RunnerDeclaration, problems: list[Problem]
) -> None:
    if declaration.name in runners:
        if runners[declaration.name].declaration is declaration:
            return  # the same runner under a second name
        hint = "give each @runner its own name"
        details = _typed("plugin.second_runner")
        problems.append(Problem("PL14", declaration.name, "name", "a second runner has this name", hint, details))
        return
    discovery = AgentRunnerDiscovery(
        plugin_author=identity.author,
        plugin_name=identity.name,
        runner_name=declaration.name,
        plugin_version=identity.version,
        manifest=declaration.manifest(identity.author, identity.name),
    )
    runners[declaration.name] = LoadedRunner(discovery=discovery, declaration=declaration)


def _offer_tool(tools: dict[str, LoadedTool], declaration: ToolDeclaration, problems: list[Problem]) -> None:
    known = tools.setdefault(declaration.name, LoadedTool(definition=declaration.definition(), declaration=declaration))
    if known.declaration is not declaration:
        hint = "give each @tool its own name"
        details = _typed("plugin.second_tool")
        problems.append(Problem("PL14", declaration.name, "name", "a second tool has this name", hint, details))


# --- defaults that select the plugin's own tools ---


def _select_own_tools(loaded: LoadedRunner, identity: PluginIdentity, tools: Mapping[str, LoadedTool]) -> LoadedRunner:
    """Replace the short names of the plugin's tools in the defaults of the form by their ids, which an agent needs."""
    form = loaded.declaration.config_schema
    if not any(item.type == "tool-multi-selector" and isinstance(item.default, list) for item in form):
        return loaded
    ids: dict[JsonValue, JsonValue] = {name: f"tool:{identity.author}/{identity.name}/{name}" for name in tools}
    chosen = tuple(
        item.model_copy(update={"default": [ids.get(each, each) for each in item.default]})
        if item.type == "tool-multi-selector" and isinstance(item.default, list)
        else item
        for item in form
    )
    declaration = dataclasses.replace(loaded.declaration, config_schema=chosen)
    manifest = declaration.manifest(identity.author, identity.name)
    return LoadedRunner(discovery=loaded.discovery.model_copy(update={"manifest": manifest}), declaration=declaration)


# --- entries that fit a frame ---


def _build_plugin(
    identity: PluginIdentity, runners: dict[str, LoadedRunner], tools: dict[str, LoadedTool], problems: list[Problem]
) -> LoadedPlugin:
    """Build the plugin without the entries whose description no frame can carry: they would hide the others."""
    runners = {name: _select_own_tools(loaded, identity, tools) for name, loaded in runners.items()}
    runner_texts = {name: loaded.discovery.to_wire() for name, loaded in runners.items()}
    tool_texts = {name: loaded.definition.to_wire() for name, loaded in tools.items()}
    listed_runners = _select_listable("runners", "PL10", runner_texts, limits.RUNNERS_PER_PLUGIN, problems)
    listed_tools = _select_listable("tools", "PL20", tool_texts, limits.TOOLS_PER_PLUGIN, problems)
    return LoadedPlugin(
        identity=identity,
        runners={name: runners[name] for name in listed_runners},
        tools={name: tools[name] for name in listed_tools},
        problems=tuple(problems),
    )


def _select_listable(
    key: str, rule: str, texts: Mapping[str, JsonObject], most: int, problems: list[Problem]
) -> Iterable[str]:
    if len(texts) <= most and explain_unsendable({key: [*texts.values()]}) is None:
        return texts
    listed: dict[str, JsonObject] = {}
    for name, text in texts.items():
        refusal = f"{most} {key} are listed already" if len(listed) >= most else None
        refusal = refusal or explain_unsendable({key: [*listed.values(), text]})
        if refusal is None:
            listed[name] = text
        else:
            problem = f"cannot be listed: {refusal}"
            hint = "describe it with less, or move it to a plugin of its own"
            details = _typed("plugin.not_listable", limit=most)
            problems.append(Problem(rule, name, "(whole)", problem, hint, details))
    return listed
