"""`@runner`: declares a function or class as a runner, and derives its manifest.

Starts and registers nothing: the declaration is stored on the object, and the plugin loader reads it.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError

from bollard.protocol import (
    AgentRunnerCapabilities,
    AgentRunnerManifest,
    AgentRunnerPermissions,
    FormItem,
    JsonObject,
    PluginRunner,
    limits,
    runner_id,
)
from bollard.sdk.context import RunContext
from bollard.sdk.errors import DeclarationError, invalid_argument, read_declaration, reject_declaration
from bollard.sdk.form import form_of, humanize, localize, parse_config
from bollard.sdk.run_driver import ClassRunner, FunctionRunner, RunnerObject

F = TypeVar("F")
_MARK: Final = "__bollard_runner__"
_NO_CONFIG: Final = (dict, Any, object, Mapping)

Text = str | Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunnerDeclaration:
    """The declaration of a runner."""

    name: str
    label: Mapping[str, str]
    description: Mapping[str, str] | None
    capabilities: AgentRunnerCapabilities
    permissions: AgentRunnerPermissions
    config_model: type[BaseModel] | None
    config_schema: tuple[FormItem, ...]
    metadata: JsonObject
    kind: Literal["generator", "coroutine"]
    target: Callable[..., Any]

    def manifest(self, author: str, plugin: str) -> AgentRunnerManifest:
        """Return the manifest of this runner in a plugin."""
        return AgentRunnerManifest(
            id=runner_id(author, plugin, self.name),
            name=self.name,
            label=dict(self.label),
            description=None if self.description is None else dict(self.description),
            capabilities=self.capabilities,
            permissions=self.permissions,
            config_schema=self.config_schema,
            metadata=self.metadata,
        )

    def under(self, entry: PluginRunner) -> "RunnerDeclaration":
        """Return the declaration in a plugin folder. The manifest wins; the decorator never adds a permission."""
        silent = "capabilities" not in entry.model_fields_set
        return replace(
            self,
            name=entry.name,
            label=entry.label,
            description=entry.description or self.description,
            capabilities=self.capabilities if silent else entry.capabilities,
            permissions=entry.permissions,
            config_schema=entry.config_schema or self.config_schema,
        )

    def conflicts(self, entry: PluginRunner) -> Iterator[tuple[str, str, str]]:
        """Yield the field, the problem and the claim of the decorator, for each claim that the manifest overrides."""
        if self.permissions.model_fields_set and self.permissions != entry.permissions:
            yield "permissions", "the decorator declares other permissions than the manifest", ""
        added = {
            name
            for name in self.capabilities.model_fields_set - {"streaming"}  # derived from yielding
            if getattr(self.capabilities, name) and not getattr(entry.capabilities, name)
        }
        if added and "capabilities" in entry.model_fields_set:
            yield "capabilities", f"the decorator declares {min(added)}, the manifest does not", min(added)

    def read_config(self, raw: JsonObject) -> Any:
        """Return the configuration as the runner's model, or unchanged without one. Raises `ConfigError`."""
        return raw if self.config_model is None else parse_config(self.config_model, raw)

    def instantiate(self) -> RunnerObject:
        """Return a callable runner. A class is instantiated here; errors of its constructor propagate."""
        return ClassRunner(self.target()) if isinstance(self.target, type) else FunctionRunner(self.target)


def _read_description(given: Text | None, target: object) -> Mapping[str, str] | None:
    if given is not None:
        return localize(given)
    paragraph = inspect.cleandoc(target.__doc__ or "").partition("\n\n")[0]
    return localize(" ".join(paragraph.split())) if 0 < len(paragraph) <= limits.TEXT_CHARACTERS else None


def declaration_of(candidate: object) -> RunnerDeclaration | None:
    """Return the declaration of a decorated function or class. A subclass does not inherit it."""
    found = read_declaration(candidate, _MARK, RunnerDeclaration)
    return found if found is not None and found.target is candidate else None


def runner(
    name: str = "default",
    label: Text | None = None,
    description: Text | None = None,
    capabilities: Iterable[str] | AgentRunnerCapabilities | None = None,
    permissions: Mapping[str, Iterable[str]] | AgentRunnerPermissions | None = None,
    config: type[BaseModel] | None = None,
    metadata: JsonObject | None = None,
) -> Callable[[F], F]:
    """Make an async generator function, an async function, or a class with `async def run(self, ctx)` a runner.

    The first paragraph of its docstring is the description, if `description` is absent. Capabilities are declared by
    name; `streaming` follows from yielding. Permissions are the most the runner may ever be granted. The configuration
    model comes from `config`, or from the annotation `ctx: RunContext[MyConfig]`.
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- @runner without parentheses
        error = DeclarationError(
            _describe(name), "@runner was used without arguments", 'write @runner(label="…")', "sdk.bare_runner"
        )
        return reject_declaration(name, _MARK, error)
    subject = f"runner {name!r}"

    def declare(target: F) -> RunnerDeclaration:
        function = _find_run_function(subject, target)
        kind: Literal["generator", "coroutine"] = "generator" if inspect.isasyncgenfunction(function) else "coroutine"
        model = _find_config_model(subject, function, config, is_method=isinstance(target, type))
        declaration = RunnerDeclaration(
            name=name,
            label=localize(label or humanize(cast("Callable[..., Any]", target).__name__)),
            description=_read_description(description, target),
            capabilities=_read_capabilities(subject, capabilities, streaming=kind == "generator"),
            permissions=_read_permissions(subject, permissions),
            config_model=model,
            config_schema=() if model is None else form_of(model),
            metadata=dict(metadata or {}),
            kind=kind,
            target=cast("Callable[..., Any]", target),
        )
        try:
            declaration.manifest("author", "plugin")
        except ValidationError as error:
            raise invalid_argument(subject, error, "correct this argument of @runner") from error
        return declaration

    def decorate(target: F) -> F:
        try:
            setattr(target, _MARK, declare(target))
        except DeclarationError as error:
            return reject_declaration(target, _MARK, error)
        return target

    return decorate


def _find_run_function(subject: str, target: object) -> Callable[..., Any]:
    """Return the async function of the target. Raises `DeclarationError` if there is none."""
    if isinstance(target, type):
        return _find_run_method(subject, target)
    if not inspect.isfunction(target):
        problem = f"@runner stands on {_describe(target)}, which is neither a function nor a class"
        hint = "decorate `async def f(ctx)` or a class with `async def run(self, ctx)`"
        raise DeclarationError(subject, problem, hint, "sdk.not_a_function", found=type(target).__name__)
    if target.__name__ == "<lambda>":
        hint = "write `async def f(ctx): yield ctx.delta(…)`"
        raise DeclarationError(subject, "a lambda cannot be a runner", hint, "sdk.lambda")
    _require_async(subject, f"{target.__name__}()", target)
    _require_ctx(subject, target, f"async def {target.__name__}(ctx)", given=1)
    return target


def _find_run_method(subject: str, cls: type) -> Callable[..., Any]:
    method = inspect.getattr_static(cls, "run", None)
    if not inspect.isfunction(method):
        hint = "add `async def run(self, ctx)` to the class"
        raise DeclarationError(
            subject, f"class {cls.__name__} has no method run", hint, "sdk.no_run", name=cls.__name__
        )
    _require_async(subject, f"{cls.__name__}.run()", method)
    _require_ctx(subject, method, "async def run(self, ctx)", given=2)
    for hook in ("start", "close"):
        found = inspect.getattr_static(cls, hook, None)
        if found is not None and not inspect.iscoroutinefunction(found):
            name, hint = f"{cls.__name__}.{hook}", f"write `async def {hook}(self)`, or name it otherwise"
            raise DeclarationError(subject, f"{name} is not an async method", hint, "sdk.not_async", name=name)
    needed = (
        [] if cls.__init__ is object.__init__ else _required_parameters(cast("Callable[..., Any]", cls.__init__))[1:]
    )
    if needed:
        names, hint = ", ".join(needed), "the worker makes it without arguments; give them defaults"
        problem = f"{cls.__name__}() needs arguments ({names})"
        raise DeclarationError(subject, problem, hint, "sdk.needs_arguments", name=f"{cls.__name__}()", names=names)
    return method


def _require_async(subject: str, called: str, function: Callable[..., Any]) -> None:
    if not (inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(function)):
        kind = "a generator that is not async" if inspect.isgeneratorfunction(function) else "not async"
        hint = "write `async def` instead of `def`"
        raise DeclarationError(subject, f"{called} is {kind}", hint, "sdk.not_async", name=called)


def _required_parameters(function: Callable[..., Any]) -> list[str]:
    return [
        item.name
        for item in inspect.signature(function).parameters.values()
        if item.default is item.empty and item.kind not in (item.VAR_POSITIONAL, item.VAR_KEYWORD)
    ]


def _require_ctx(subject: str, function: Callable[..., Any], wanted: str, *, given: int) -> None:
    try:
        inspect.signature(function).bind(*(object() for _ in range(given)))
    except TypeError as error:
        name = f"{function.__name__}{inspect.signature(function)}"
        problem = f"{name} cannot be called with the run's context alone"
        raise DeclarationError(subject, problem, f"write `{wanted}`", "sdk.context_alone", name=name) from error


def _read_capabilities(
    subject: str, declared: Iterable[str] | AgentRunnerCapabilities | None, *, streaming: bool
) -> AgentRunnerCapabilities:
    if isinstance(declared, AgentRunnerCapabilities):
        return declared
    names = {declared} if isinstance(declared, str) else set(declared or ())
    unknown = sorted(str(name) for name in names if name not in AgentRunnerCapabilities.model_fields)
    if unknown:
        known = ", ".join(AgentRunnerCapabilities.model_fields)
        problem, hint = f"unknown capability {unknown[0]!r}", f"use some of {known}"
        raise DeclarationError(subject, problem, hint, "sdk.capability", name=unknown[0], known=known)
    return AgentRunnerCapabilities.model_validate({"streaming": streaming} | dict.fromkeys(names, True))


def _read_permissions(
    subject: str, declared: Mapping[str, Iterable[str]] | AgentRunnerPermissions | None
) -> AgentRunnerPermissions:
    if isinstance(declared, AgentRunnerPermissions):
        return declared
    given = {
        key: (operations,) if isinstance(operations, str) else tuple(operations)
        for key, operations in (declared or {}).items()
    }
    try:
        return AgentRunnerPermissions.model_validate(given)
    except ValidationError as error:
        known = ", ".join(AgentRunnerPermissions.model_fields)
        hint = f'use {{"key": ["operation", …]}} with the keys {known}'
        raise invalid_argument(subject, error, hint, below="permissions.") from error


def _find_config_model(
    subject: str, function: Callable[..., Any], config: type[BaseModel] | None, *, is_method: bool
) -> type[BaseModel] | None:
    found: object = config if config is not None else _find_annotated_config(subject, function, is_method)
    if found is None or isinstance(found, TypeVar) or found in _NO_CONFIG or get_origin(found) in _NO_CONFIG:
        return None
    if isinstance(found, type) and issubclass(found, BaseModel):
        return found
    described = _describe(cast("object", found))
    problem, hint = f"its configuration {described} is not a pydantic model", "use a subclass of pydantic.BaseModel"
    raise DeclarationError(subject, problem, hint, "sdk.config_model", found=described.removeprefix("a "))


def _find_annotated_config(subject: str, function: Callable[..., Any], is_method: bool) -> object:
    """Return the parameter of the annotation `ctx: RunContext[…]`, or `None`."""
    parameters = list(inspect.signature(function).parameters.values())[1 if is_method else 0 :]
    if not parameters or parameters[0].annotation is parameters[0].empty:
        return None
    annotation: object = parameters[0].annotation
    if isinstance(annotation, str):
        annotation = _resolve_annotation(subject, annotation, function)
    if annotation is RunContext or get_origin(annotation) is not RunContext:
        return None
    return get_args(annotation)[0]


def _resolve_annotation(subject: str, text: str, function: Callable[..., Any]) -> object:
    # Only this annotation: the others may use names that exist for the type checker only.
    holder = type("Holder", (), {"__annotations__": {"ctx": text}})
    try:
        return get_type_hints(holder, globalns=function.__globals__)["ctx"]
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        if "[" not in text:
            return None
        problem = f"the annotation {text!r} of its context cannot be resolved ({error})"
        hint = "define the model at module level, or pass config=…"
        inner: JsonObject = {"problem": str(error)}
        raise DeclarationError(subject, problem, hint, "sdk.annotation", annotation=text, inner=inner) from error


def _describe(value: object) -> str:
    return (
        f"{value.__name__!r}" if isinstance(value, type) or inspect.isfunction(value) else f"a {type(value).__name__}"
    )
