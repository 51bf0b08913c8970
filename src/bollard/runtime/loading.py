"""Loads one plugin into this process: a folder with a manifest, or one Python file. One bad entry hides no other."""

import dataclasses
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

from pydantic import ValidationError

from bollard.protocol import (
    AgentRunnerDiscovery,
    FlowBits,
    PluginIdentity,
    PluginRunner,
    PluginTool,
    ToolDefinition,
    first_problem,
)
from bollard.runtime.manifest_file import ManifestReading, read_manifest
from bollard.runtime.problems import PluginLoadError, Problem
from bollard.sdk import RunnerDeclaration, SdkError, ToolDeclaration, declaration_of, runner, tool, tool_declaration_of

__all__ = ["LoadedPlugin", "LoadedRunner", "LoadedTool", "digest_of", "load_plugin"]

_LEFT_OUT: Final = frozenset({"__pycache__", ".git", ".venv", "node_modules"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRunner:
    """A runner that can be run, and how the host discovers it."""

    discovery: AgentRunnerDiscovery
    declaration: RunnerDeclaration


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTool:
    """A tool that can be called, and how the host sees it."""

    definition: ToolDefinition
    declaration: ToolDeclaration


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPlugin:
    """A plugin: what it offers, and what of it cannot be used."""

    identity: PluginIdentity
    runners: Mapping[str, LoadedRunner]
    tools: Mapping[str, LoadedTool]
    problems: tuple[Problem, ...]


def load_plugin(path: Path) -> LoadedPlugin:
    """Load what can be loaded. Raises `PluginLoadError` when nothing of the plugin can be used."""
    path = path.resolve()
    if path.is_dir():
        plugin = _load_folder(path)
    elif path.is_file() and path.suffix == ".py":
        plugin = _load_file(path)
    else:
        problem = "is not a folder and not a Python file" if path.exists() else "does not exist"
        raise PluginLoadError(
            Problem(
                rule="PL01", where=path.name, field="path", problem=problem, hint="name a plugin folder or a .py file"
            )
        )
    if not plugin.runners and not plugin.tools:
        hint = "decorate a function with @runner, or name it in manifest.yaml"
        nothing = Problem(rule="PL06", where=path.name, field="spec", problem="no usable runner or tool", hint=hint)
        return dataclasses.replace(plugin, problems=(*plugin.problems, nothing))
    return plugin


def digest_of(path: Path) -> str:
    """SHA-256 over names and contents of a plugin's files: what a plugin is pinned by."""
    digest = hashlib.sha256()
    for name, file in sorted(_files(path)):
        content = file.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    if path.is_file():
        yield path.name, path
        return
    for file in path.rglob("*"):
        inside = file.relative_to(path)
        hidden = any(part in _LEFT_OUT or part.startswith(".") for part in inside.parts)
        if file.is_file() and not hidden and file.suffix != ".pyc":
            yield inside.as_posix(), file


# --- a folder with a manifest ---


def _load_folder(folder: Path) -> LoadedPlugin:
    reading = read_manifest(folder)
    sys.path.insert(0, str(folder))
    problems = list(reading.problems)
    identity = PluginIdentity(
        author=reading.metadata.author,
        name=reading.metadata.name,
        version=reading.metadata.version,
        digest=digest_of(folder),
    )
    runners: dict[str, LoadedRunner] = {}
    for entry in reading.runners:
        if (declaration := _declared_runner(entry, problems)) is not None:
            _offer_runner(runners, identity, declaration, problems)
    return LoadedPlugin(
        identity=identity, runners=runners, tools=_folder_tools(reading, problems), problems=tuple(problems)
    )


def _folder_tools(reading: ManifestReading, problems: list[Problem]) -> dict[str, LoadedTool]:
    tools: dict[str, LoadedTool] = {}
    for entry in reading.tools:
        found = _resolve(entry.name, entry.entry, problems)
        if found is not None and (declaration := _declared_tool(entry, found, problems)) is not None:
            tools[entry.name] = LoadedTool(definition=_definition(declaration, entry), declaration=declaration)
    return tools


def _resolve(where: str, entry: str, problems: list[Problem]) -> object | None:
    module_name, _, attribute = entry.partition(":")
    try:
        module = importlib.import_module(module_name)
    except BaseException as error:  # noqa: BLE001 -- plugin code runs here: whatever it raises is its problem
        problem = f"{module_name} cannot be imported: {type(error).__name__}: {error}"
        hint = "fix the module; its other entries are still offered"
        problems.append(Problem(rule="PL11", where=where, field="entry", problem=problem, hint=hint))
        return None
    if not hasattr(module, attribute):
        hint = f"define it, or correct the entry {entry!r}"
        problem = f"{module_name} has no {attribute}"
        problems.append(Problem(rule="PL12", where=where, field="entry", problem=problem, hint=hint))
        return None
    return getattr(module, attribute)


def _declared_runner(entry: PluginRunner, problems: list[Problem]) -> RunnerDeclaration | None:
    """The manifest's word stands; the decorator adds the configuration model and, where that is silent, its form."""
    found = _resolve(entry.name, entry.entry, problems)
    if found is None:
        return None
    declaration = declaration_of(found)
    if declaration is None:
        try:
            declaration = declaration_of(runner(name=entry.name, label=entry.label)(found))
        except SdkError as error:
            hint = "write `async def run(ctx: RunContext)` and yield results, decorated with @runner"
            problems.append(Problem(rule="PL13", where=entry.name, field="entry", problem=str(error), hint=hint))
            return None
    if declaration is None:
        return None
    if declaration.permissions.model_fields_set and declaration.permissions != entry.permissions:
        problem = "the decorator declares other permissions than the manifest"
        hint = "the manifest's hold; write them once, in manifest.yaml"
        problems.append(Problem(rule="PL15", where=entry.name, field="permissions", problem=problem, hint=hint))
    return dataclasses.replace(
        declaration,
        name=entry.name,
        label=entry.label,
        description=entry.description,
        capabilities=entry.capabilities,
        permissions=entry.permissions,
        config_schema=entry.config_schema or declaration.config_schema,
    )


def _declared_tool(entry: PluginTool, found: object, problems: list[Problem]) -> ToolDeclaration | None:
    declaration = tool_declaration_of(found)
    if declaration is not None:
        return declaration
    try:
        return tool_declaration_of(tool(name=entry.name, description=entry.description)(found))  # pyright: ignore[reportArgumentType]
    except SdkError as error:
        hint = "a tool is a function with typed parameters, decorated with @tool"
        problems.append(Problem(rule="PL23", where=entry.name, field="entry", problem=str(error), hint=hint))
        return None


def _definition(declaration: ToolDeclaration, entry: PluginTool) -> ToolDefinition:
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
    name = file.stem.lower()
    problems: list[Problem] = []
    try:
        identity = PluginIdentity(author="local", name=name, version="0", digest=digest_of(file))
    except ValidationError as error:
        _, problem = first_problem(error)
        hint = "name the file with letters a-z, digits, '.', '_' or '-'"
        raise PluginLoadError(
            Problem(rule="PL04", where=file.name, field="name", problem=problem, hint=hint)
        ) from error
    module = _import_file(file)
    runners: dict[str, LoadedRunner] = {}
    tools: dict[str, LoadedTool] = {}
    for found in vars(module).values():
        if (declared := declaration_of(found)) is not None:
            _offer_runner(runners, identity, declared, problems)
        elif (offered := tool_declaration_of(found)) is not None:
            tools[offered.name] = LoadedTool(definition=offered.definition(), declaration=offered)
    return LoadedPlugin(identity=identity, runners=runners, tools=tools, problems=tuple(problems))


def _import_file(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"bollard_plugin_{file.stem}", file)
    if spec is None or spec.loader is None:
        problem = Problem(rule="PL11", where=file.name, field="path", problem="cannot be imported", hint="rename it")
        raise PluginLoadError(problem)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        text = f"cannot be imported: {type(error).__name__}: {error}"
        raise PluginLoadError(
            Problem(rule="PL11", where=file.name, field="module", problem=text, hint="fix the error it names")
        ) from error
    return module


def _offer_runner(
    runners: dict[str, LoadedRunner],
    identity: PluginIdentity,
    declaration: RunnerDeclaration,
    problems: list[Problem],
) -> None:
    if declaration.name in runners:
        if runners[declaration.name].declaration is declaration:
            return  # the same runner under a second name of the module
        problem = "a second runner has this name"
        hint = "give each @runner its own name"
        problems.append(Problem(rule="PL14", where=declaration.name, field="name", problem=problem, hint=hint))
        return
    discovery = AgentRunnerDiscovery(
        plugin_author=identity.author,
        plugin_name=identity.name,
        runner_name=declaration.name,
        plugin_version=identity.version,
        manifest=declaration.manifest(identity.author, identity.name),
    )
    runners[declaration.name] = LoadedRunner(discovery=discovery, declaration=declaration)
