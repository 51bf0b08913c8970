"""`@tool`: a function that a plugin offers next to its runners, with the schema its signature says.

A tool has no run API and does not know which runner calls it; it learns for whom it is called from a `ToolContext`.
"""

import asyncio
import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from pydantic import ValidationError

from bollard.protocol import (
    Effects,
    FlowBits,
    JsonObject,
    Risk,
    ToolAnswer,
    ToolCallContext,
    ToolDefinition,
    first_problem,
    limits,
)
from bollard.sdk.errors import DeclarationError, sentence_of
from bollard.sdk.misdeclared import declared, misdeclared
from bollard.sdk.toolanswer import MESSAGE_CHARACTERS, answer_of, failed
from bollard.sdk.toolschema import Signature, ToolContext, input_schema, output_schema, read_signature

__all__ = ["ToolDeclaration", "tool", "tool_declaration_of"]

F = TypeVar("F")
_MARK: Final = "__bollard_tool__"


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolDeclaration:
    """What `@tool` learned."""

    name: str
    description: str
    input_schema: JsonObject
    output_schema: JsonObject | None
    risk: Risk | None
    flow: FlowBits | None
    effects: Effects | None
    target: Callable[..., Any]
    signature: Signature

    def definition(self) -> ToolDefinition:
        """The tool, as its worker describes it to the host."""
        return ToolDefinition(
            name=self.name,
            description=self.description,
            input_schema=self.input_schema,
            output_schema=self.output_schema,
            risk=self.risk,
            flow=self.flow,
            effects=self.effects,
        )

    async def invoke(self, arguments: JsonObject, context: ToolCallContext) -> ToolAnswer:
        """Call the tool. Whatever goes wrong inside it becomes an answer with `is_error`; cancellation goes through."""
        try:
            checked = self.signature.model.model_validate(arguments)
        except ValidationError as error:
            field, problem = first_problem(error)
            return failed(f"invalid arguments for {self.name}: {field}: {problem}")
        values = {parameter: getattr(checked, field) for field, parameter in self.signature.parameters.items()}
        if self.signature.context_parameter is not None:
            values[self.signature.context_parameter] = ToolContext(context)
        try:
            if inspect.iscoroutinefunction(self.target):
                returned = await self.target(**values)
            else:
                returned = _opened(await asyncio.to_thread(_sealed, self.target, values))
        except GeneratorExit:
            raise
        except asyncio.CancelledError as error:
            if _is_being_cancelled():
                raise
            return failed(
                sentence_of(error, MESSAGE_CHARACTERS)
            )  # the tool's own: it awaited something that it had cancelled
        except BaseException as error:  # noqa: BLE001 -- tool code: even SystemExit must not end the worker
            return failed(sentence_of(error, MESSAGE_CHARACTERS))
        return answer_of(self.name, returned)


@dataclass(frozen=True, slots=True)
class _Raised:
    error: BaseException


def _sealed(function: Callable[..., Any], values: dict[str, Any]) -> object:
    # What a thread raises comes back as a value: a future cannot hold a StopIteration, and would never be done.
    try:
        return function(**values)
    except BaseException as error:  # noqa: BLE001 -- raised again by the caller
        return _Raised(error)


def _opened(value: object) -> object:
    if isinstance(value, _Raised):
        if isinstance(value.error, asyncio.CancelledError | GeneratorExit | StopIteration):
            value = _Raised(RuntimeError(f"the tool raised {type(value.error).__name__}"))
        raise value.error
    return value


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def tool_declaration_of(candidate: object) -> ToolDeclaration | None:
    """The declaration of a decorated function."""
    found = declared(candidate, _MARK, ToolDeclaration)
    return found if found is not None and found.target is candidate else None


def tool(
    name: str | None = None,
    description: str | None = None,
    risk: Risk | None = None,
    flow: FlowBits | Mapping[str, bool] | None = None,
    effects: Effects | None = None,
) -> Callable[[F], F]:
    """Make a function, async or not, a tool: name, description and schema come from its name, docstring, signature."""
    if name is not None and not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        described = getattr(name, "__name__", type(name).__name__)
        error = DeclarationError(f"tool {described!r}", "@tool was used without parentheses", "write @tool()")
        return misdeclared(name, _MARK, error)

    def declare(target: F) -> ToolDeclaration:
        function = _function(name, target)
        own_name = name or function.__name__.lower()
        subject = f"tool {own_name!r}"
        text = description or inspect.getdoc(function)
        if not text:
            raise DeclarationError(subject, "it has no description", "write a docstring: the model reads it")
        if len(text) > limits.TEXT_CHARACTERS:
            problem = f"its description has {len(text)} characters, {limits.TEXT_CHARACTERS} are allowed"
            raise DeclarationError(subject, problem, "pass a shorter description=…")
        signature, returned = read_signature(subject, function)
        declaration = ToolDeclaration(
            name=own_name,
            description=text,
            input_schema=input_schema(subject, signature.model),
            output_schema=output_schema(subject, returned),
            risk=risk,
            flow=cast("FlowBits | None", flow),
            effects=effects,
            target=function,
            signature=signature,
        )
        try:
            checked = declaration.definition()
        except ValidationError as error:
            field, problem = first_problem(error)
            raise DeclarationError(subject, f"{field}: {problem}", "correct this argument of @tool") from error
        return dataclasses.replace(declaration, flow=checked.flow)

    def decorate(target: F) -> F:
        try:
            setattr(target, _MARK, declare(target))
        except DeclarationError as error:
            return misdeclared(target, _MARK, error)
        return target

    return decorate


def _function(name: str | None, target: object) -> Callable[..., Any]:
    subject = f"tool {name or getattr(target, '__name__', type(target).__name__)!r}"
    if not inspect.isfunction(target) or target.__name__ == "<lambda>":
        raise DeclarationError(subject, "@tool stands on something that is no named function", "decorate a `def`")
    if inspect.isasyncgenfunction(target) or inspect.isgeneratorfunction(target):
        raise DeclarationError(subject, "a generator cannot be a tool", "return the answer instead of yielding it")
    return target
