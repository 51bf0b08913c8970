"""`@tool`: declares a function as a tool of a plugin, with a schema from its signature.

A tool has no run API. It learns from a `ToolContext` for whom it is called.
"""

import asyncio
import dataclasses
import inspect
import json
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, TypeAdapter, ValidationError, create_model
from pydantic_core import PydanticSerializationError, to_jsonable_python

from bollard.protocol import (
    ActorContext,
    ContentElement,
    ConversationContext,
    Effects,
    FlowBits,
    JsonObject,
    JsonValue,
    Risk,
    TextContent,
    ToolAnswer,
    ToolCallContext,
    ToolDefinition,
    first_problem,
    limits,
)
from bollard.sdk.errors import DeclarationError, describe_error, invalid_argument, read_declaration, reject_declaration


@dataclass(frozen=True, slots=True)
class ToolContext:
    """For whom a tool is called."""

    raw: ToolCallContext

    @property
    def run_id(self) -> str:
        """The run that calls the tool."""
        return self.raw.run_id

    @property
    def workspace_id(self) -> str:
        """The workspace of that run."""
        return self.raw.workspace_id

    @property
    def agent_id(self) -> str:
        """The agent of that run."""
        return self.raw.agent_id

    @property
    def actor(self) -> ActorContext | None:
        """Who caused the event of the run; `None` if unknown."""
        return self.raw.actor

    @property
    def conversation(self) -> ConversationContext | None:
        """The conversation of the run; `None` if it has none."""
        return self.raw.conversation

    @property
    def locale(self) -> str | None:
        """The language of the actor, such as `en_US`; `None` if unknown."""
        return self.raw.locale

    @property
    def traceparent(self) -> str | None:
        """The W3C trace context of the call; `None` without tracing."""
        return self.raw.traceparent


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """The parameters of a tool: a model of its arguments, and the parameter of each field."""

    model: type[BaseModel]
    parameters: Mapping[str, str]
    context_parameter: str | None


def read_signature(subject: str, function: Callable[..., Any]) -> tuple[Signature, Any]:
    """Return the signature of the function and its return annotation."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        problem = f"its annotations cannot be resolved ({error})"
        hint = "define or import the types at module level"
        inner: JsonObject = {"problem": str(error)}
        raise DeclarationError(subject, problem, hint, "sdk.annotations", inner=inner) from error
    fields: dict[str, Any] = {}
    parameters: dict[str, str] = {}
    context_parameter: str | None = None
    for number, item in enumerate(inspect.signature(function).parameters.values()):
        if item.kind in (item.VAR_POSITIONAL, item.VAR_KEYWORD, item.POSITIONAL_ONLY):
            problem = f"parameter {item} cannot be given by name"
            hint = "write each parameter with a name and a type"
            raise DeclarationError(subject, problem, hint, "sdk.unnamed_parameter", name=str(item))
        if item.name not in hints:
            problem, hint = f"parameter {item.name} has no type", f"write `{item.name}: str`, or whatever it is"
            raise DeclarationError(subject, problem, hint, "sdk.untyped_parameter", name=item.name)
        if _is_context(hints[item.name]):
            context_parameter = item.name
            continue
        # Numbered, with the parameter's name as alias: a name such as `json` would shadow the model's own.
        annotation = Annotated[hints[item.name], Field(alias=item.name)]
        fields[f"p{number}"] = (annotation, ... if item.default is item.empty else item.default)
        parameters[f"p{number}"] = item.name
    try:
        model = create_model("Arguments", __config__=ConfigDict(extra="forbid"), **fields)
    except (PydanticUserError, TypeError, NameError) as error:
        raise _no_schema(subject, "signature", error, "use types that JSON has, or pydantic models") from error
    return Signature(model=model, parameters=parameters, context_parameter=context_parameter), hints.get("return")


def _is_context(annotation: Any) -> bool:
    return annotation is ToolContext or ToolContext in get_args(annotation)


def input_schema(subject: str, model: type[BaseModel]) -> JsonObject:
    """Return the JSON schema of the arguments, without the titles that pydantic generates."""
    try:
        schema = model.model_json_schema(by_alias=True)
    except (PydanticUserError, TypeError) as error:
        raise _no_schema(subject, "signature", error, "use types that JSON has, or pydantic models") from error
    schema.pop("title", None)
    titled = {field.alias for field in model.model_fields.values() if field.title}
    properties = schema.setdefault("properties", {})
    for name, described in properties.items():
        if name not in titled:
            described.pop("title", None)
    return schema


def output_schema(subject: str, annotation: Any) -> JsonObject | None:
    """Return the schema of a return type that is an object; `None` for other types, which become content."""
    bare = cast("object", get_origin(annotation) or annotation)
    is_object = typing.is_typeddict(bare) or (
        isinstance(bare, type)
        and (issubclass(bare, BaseModel | dict) or dataclasses.is_dataclass(cast("object", bare)))
    )
    if not is_object or bare is ToolAnswer:
        return None
    try:
        if typing.is_typeddict(cast("object", bare)):  # pydantic reads those of `typing` from Python 3.12 on
            return _typed_dict(cast("type", bare)).model_json_schema(mode="serialization")
        return cast("JsonObject", TypeAdapter(annotation).json_schema(mode="serialization"))
    except (PydanticUserError, TypeError) as error:
        raise _no_schema(subject, "return type", error, "return a dict, a pydantic model, or text") from error


def _no_schema(
    subject: str, part: Literal["signature", "return type"], error: Exception, hint: str
) -> DeclarationError:
    said = _first_line(error)
    kind = "sdk.no_schema" if part == "signature" else "sdk.no_return_schema"
    return DeclarationError(subject, f"its {part} has no schema ({said})", hint, kind, inner={"problem": said})


def _typed_dict(cls: type) -> type[BaseModel]:
    required = cast("frozenset[str]", vars(cls)["__required_keys__"])
    hints = get_type_hints(cls)
    # An absent key has no default in the schema: None stands in for it and is never written.
    fields: dict[str, Any] = {
        name: (hint, ... if name in required else Field(default=None, json_schema_extra=_without_default))
        for name, hint in hints.items()
    }
    return create_model(cls.__name__, **fields)


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


# The value that a tool returned, as an answer of the protocol.


_CONTENT: tuple[type[BaseModel], ...] = tuple(get_args(member)[0] for member in get_args(get_args(ContentElement)[0]))
"""The classes of `ContentElement`."""

MESSAGE_CHARACTERS: Final = 8 * limits.KIB
"""The text of a failed call."""


def failed_answer(message: str) -> ToolAnswer:
    """Return an answer that reports an error to the model."""
    text = message if len(message) <= MESSAGE_CHARACTERS else message[: MESSAGE_CHARACTERS - 1] + "…"
    clean = text.encode("utf-8", "replace").decode()
    return ToolAnswer(content=(TextContent(text=clean),), is_error=True)


def build_answer(name: str, returned: object) -> ToolAnswer:
    """Convert a return value: text and content elements become content, other JSON also becomes `structured`."""
    try:
        answer = _to_answer(returned)
        size = len(_json(cast("JsonValue", answer.to_wire())).encode())
    except (PydanticSerializationError, TypeError, ValueError, RecursionError) as error:
        return failed_answer(f"{name} returned a {type(returned).__name__} that is not JSON: {error}")
    if size > limits.CALL_BYTES:
        return failed_answer(f"{name} returned {size} bytes of JSON, {limits.CALL_BYTES} are allowed; return less")
    return answer


def _to_answer(returned: object) -> ToolAnswer:
    if isinstance(returned, ToolAnswer):
        return returned
    if returned is None:
        return ToolAnswer()
    if isinstance(returned, str):
        return ToolAnswer(content=(TextContent(text=returned),))
    if isinstance(returned, _CONTENT):
        return ToolAnswer(content=(cast("Any", returned),))
    if isinstance(returned, list | tuple):
        members = cast("list[Any] | tuple[Any, ...]", returned)
        if members and all(isinstance(member, _CONTENT) for member in members):
            return ToolAnswer(content=tuple(members))
    structured = cast("JsonValue", to_jsonable_python(returned))
    return ToolAnswer(content=(TextContent(text=_json(structured)),), structured=structured)


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


F = TypeVar("F")
_MARK: Final = "__bollard_tool__"


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolDeclaration:
    """The declaration of a tool."""

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

    def problem(self, arguments: JsonObject) -> str | None:
        """What is wrong with the arguments, if anything."""
        try:
            self.signature.model.model_validate(arguments)
        except ValidationError as error:
            return self._invalid(error)
        return None

    def _invalid(self, error: ValidationError) -> str:
        field, problem = first_problem(error)
        return f"invalid arguments for {self.name}: {field}: {problem}"

    async def invoke(self, arguments: JsonObject, context: ToolCallContext) -> ToolAnswer:
        """Call the tool. Its errors become an answer with `is_error`; cancellation propagates."""
        try:
            checked = self.signature.model.model_validate(arguments)
        except ValidationError as error:
            return failed_answer(self._invalid(error))
        values = {parameter: getattr(checked, field) for field, parameter in self.signature.parameters.items()}
        if self.signature.context_parameter is not None:
            values[self.signature.context_parameter] = ToolContext(context)
        try:
            if inspect.iscoroutinefunction(self.target):
                returned = await self.target(**values)
            else:
                returned = _unwrap(await asyncio.to_thread(_call_in_thread, self.target, values))
        except GeneratorExit:
            raise
        except asyncio.CancelledError as error:
            if _is_being_cancelled():
                raise
            return failed_answer(
                describe_error(error, MESSAGE_CHARACTERS)
            )  # the tool's own: it awaited something that it had cancelled
        except BaseException as error:  # noqa: BLE001 -- tool code: even SystemExit must not end the worker
            return failed_answer(describe_error(error, MESSAGE_CHARACTERS))
        return build_answer(self.name, returned)


@dataclass(frozen=True, slots=True)
class _Raised:
    error: BaseException


def _call_in_thread(function: Callable[..., Any], values: dict[str, Any]) -> object:
    # Exceptions of the thread are returned as values: a future cannot hold a StopIteration and would never resolve.
    try:
        return function(**values)
    except BaseException as error:  # noqa: BLE001 -- raised again by the caller
        return _Raised(error)


def _unwrap(value: object) -> object:
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
    found = read_declaration(candidate, _MARK, ToolDeclaration)
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
        problem, hint = "@tool was used without parentheses", "write @tool()"
        error = DeclarationError(f"tool {described!r}", problem, hint, "sdk.bare_tool")
        return reject_declaration(name, _MARK, error)

    def declare(target: F) -> ToolDeclaration:
        function = _require_function(name, target)
        own_name = name or function.__name__.lower()
        subject = f"tool {own_name!r}"
        text = description or inspect.getdoc(function)
        if not text:
            hint = "write a docstring: the model reads it"
            raise DeclarationError(subject, "it has no description", hint, "sdk.no_description")
        if len(text) > limits.TEXT_CHARACTERS:
            problem = f"its description has {len(text)} characters, {limits.TEXT_CHARACTERS} are allowed"
            hint, most = "pass a shorter description=…", limits.TEXT_CHARACTERS
            raise DeclarationError(subject, problem, hint, "sdk.long_description", count=len(text), limit=most)
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
            raise invalid_argument(subject, error, "correct this argument of @tool") from error
        return dataclasses.replace(declaration, flow=checked.flow)

    def decorate(target: F) -> F:
        try:
            setattr(target, _MARK, declare(target))
        except DeclarationError as error:
            return reject_declaration(target, _MARK, error)
        return target

    return decorate


def _require_function(name: str | None, target: object) -> Callable[..., Any]:
    subject = f"tool {name or getattr(target, '__name__', type(target).__name__)!r}"
    if not inspect.isfunction(target) or target.__name__ == "<lambda>":
        problem = "@tool stands on something that is no named function"
        raise DeclarationError(subject, problem, "decorate a `def`", "sdk.no_named_function")
    if inspect.isasyncgenfunction(target) or inspect.isgeneratorfunction(target):
        hint = "return the answer instead of yielding it"
        raise DeclarationError(subject, "a generator cannot be a tool", hint, "sdk.generator_tool")
    return target
