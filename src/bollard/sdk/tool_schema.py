"""The schema of a tool from its signature: the model of its arguments, and its input and output schemas."""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, TypeAdapter, create_model

from bollard.protocol import ActorContext, ConversationContext, JsonObject, ToolAnswer, ToolCallContext
from bollard.sdk.errors import DeclarationError


@dataclass(frozen=True, slots=True)
class ToolContext:
    """For whom a tool is called."""

    raw: ToolCallContext

    @property
    def run_id(self) -> str:
        return self.raw.run_id

    @property
    def workspace_id(self) -> str:
        return self.raw.workspace_id

    @property
    def agent_id(self) -> str:
        return self.raw.agent_id

    @property
    def actor(self) -> ActorContext | None:
        return self.raw.actor

    @property
    def conversation(self) -> ConversationContext | None:
        return self.raw.conversation

    @property
    def locale(self) -> str | None:
        return self.raw.locale

    @property
    def traceparent(self) -> str | None:
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
        raise DeclarationError(subject, problem, "define or import the types at module level") from error
    fields: dict[str, Any] = {}
    parameters: dict[str, str] = {}
    context_parameter: str | None = None
    for number, item in enumerate(inspect.signature(function).parameters.values()):
        if item.kind in (item.VAR_POSITIONAL, item.VAR_KEYWORD, item.POSITIONAL_ONLY):
            problem = f"parameter {item} cannot be given by name"
            raise DeclarationError(subject, problem, "write each parameter with a name and a type")
        if item.name not in hints:
            problem = f"parameter {item.name} has no type"
            raise DeclarationError(subject, problem, f"write `{item.name}: str`, or whatever it is")
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
        problem = f"its signature has no schema ({_first_line(error)})"
        raise DeclarationError(subject, problem, "use types that JSON has, or pydantic models") from error
    return Signature(model=model, parameters=parameters, context_parameter=context_parameter), hints.get("return")


def _is_context(annotation: Any) -> bool:
    return annotation is ToolContext or ToolContext in get_args(annotation)


def input_schema(subject: str, model: type[BaseModel]) -> JsonObject:
    """Return the JSON schema of the arguments, without the titles that pydantic generates."""
    try:
        schema = model.model_json_schema(by_alias=True)
    except (PydanticUserError, TypeError) as error:
        problem = f"its signature has no schema ({_first_line(error)})"
        raise DeclarationError(subject, problem, "use types that JSON has, or pydantic models") from error
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
        problem = f"its return type has no schema ({_first_line(error)})"
        raise DeclarationError(subject, problem, "return a dict, a pydantic model, or text") from error


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
