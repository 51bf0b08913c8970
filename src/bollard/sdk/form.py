"""A pydantic model as a configuration form, and a configuration as an instance of the model.

`Form` and the aliases below say what a type cannot: that a text is long, that a string names a model. Drawing the form
and granting what it selects are the host's work.
"""

import enum
import types
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError, to_jsonable_python

from bollard.protocol import (
    DEFAULT_LOCALE,
    NOTHING_SELECTED,
    SELECTOR_TYPES,
    FormItem,
    FormOption,
    FormType,
    JsonObject,
    JsonValue,
    first_problem,
)
from bollard.sdk.errors import ConfigError, DeclarationError, invalid_argument


def localize(text: str | Mapping[str, str]) -> dict[str, str]:
    """Return a text by locale. A plain text is English."""
    return {DEFAULT_LOCALE: text} if isinstance(text, str) else dict(text)


def humanize(name: str) -> str:
    """Turn `max_tokens` into `Max tokens`."""
    spaced = " ".join(name.replace("-", "_").replace(".", "_").split("_")).strip()
    return spaced[:1].upper() + spaced[1:] if spaced else name


M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Form:
    """How a field is displayed, if its type does not say it. Used in `Annotated`."""

    type: FormType | None = None
    label: str | Mapping[str, str] | None = None
    description: str | Mapping[str, str] | None = None
    show_if: Mapping[str, JsonValue] | None = None
    options: Mapping[Any, str | Mapping[str, str]] | None = None
    """Labels of a select's values."""
    locked: str | Mapping[str, str] | None = None
    """Why nobody can change the value, which is the default."""


class FallbackModels(BaseModel):
    """The value of a `ModelFallback` field."""

    model_config = ConfigDict(defer_build=True)

    primary: str | None = None
    fallbacks: tuple[str, ...] = ()


Text = Annotated[str, Form("text")]
"""A text of several lines."""
Prompt = Annotated[str, Form("prompt-editor")]
"""A prompt."""
ModelSelector = Annotated[str | None, Form("llm-model-selector")]
"""The id of a model; `None` if none is selected."""
ModelFallback = Annotated[FallbackModels | None, Form("model-fallback-selector")]
"""A model and its fallbacks."""
RerankModel = Annotated[str | None, Form("rerank-model-selector")]
"""The id of a model that reranks."""
EmbeddingModel = Annotated[str | None, Form("embedding-model-selector")]
"""The id of a model that embeds."""
Outpost = Annotated[str | None, Form("outpost-selector")]
"""The id of an outpost."""
File = Annotated[str | None, Form("file")]
"""The id of a file."""
KnowledgeBases = Annotated[tuple[str, ...], Form("knowledge-base-multi-selector")]
"""Ids of knowledge bases."""
Tools = Annotated[tuple[str, ...], Form("tool-multi-selector")]
"""Names of tools."""
Files = Annotated[tuple[str, ...], Form("array[file]")]
"""Ids of files."""
Display = Annotated[str, Form("display")]
"""A text that people see and copy. It is no part of the configuration: a run reads it as declared."""

_MANY: Final = frozenset({"knowledge-base-multi-selector", "tool-multi-selector", "array[file]"})
_SCALARS: Final[Mapping[object, FormType]] = {
    str: "string",
    SecretStr: "secret",
    bool: "boolean",
    int: "integer",
    float: "float",
}
_COLLECTIONS: Final = (list, tuple, set, frozenset)


def form_of(model: type[BaseModel]) -> tuple[FormItem, ...]:
    """Return the form of a configuration model. Raises `DeclarationError` with the invalid field."""
    return tuple(_build_item(model, name, field) for name, field in model.model_fields.items())


def parse_config(model: type[M], raw: JsonObject) -> M:
    """Return the configuration as an instance of its model. Raises `ConfigError` with the invalid field."""
    cleaned = dict(raw)
    for name, kind in _selectors(model).items():
        if name in cleaned:
            cleaned[name] = _clean_selection(kind, cleaned[name])
    try:
        return model.model_validate(cleaned)
    except ValidationError as error:
        raise ConfigError(*first_problem(error, whole="")) from error


@lru_cache(maxsize=256)
def _selectors(model: type[BaseModel]) -> Mapping[str, FormType]:
    kinds: dict[str, FormType] = {_key(name, field): _kind(field)[0] for name, field in model.model_fields.items()}
    return {name: kind for name, kind in kinds.items() if kind in SELECTOR_TYPES}


def _clean_selection(kind: FormType, value: JsonValue) -> JsonValue:
    if kind in _MANY:
        if value is None or value in NOTHING_SELECTED:
            return []
        return [item for item in value if item not in NOTHING_SELECTED] if isinstance(value, list) else value
    if isinstance(value, str) and value in NOTHING_SELECTED:
        return None
    if kind == "model-fallback-selector" and isinstance(value, dict):
        fallbacks = value.get("fallbacks")
        kept = (
            [item for item in fallbacks if item not in NOTHING_SELECTED] if isinstance(fallbacks, list) else fallbacks
        )
        primary = value.get("primary")
        return {
            "primary": None if isinstance(primary, str) and primary in NOTHING_SELECTED else primary,
            "fallbacks": [] if kept is None else kept,
        }
    return value


def _build_item(model: type[BaseModel], name: str, field: FieldInfo) -> FormItem:
    subject = f"configuration {model.__name__}.{name}"
    kind, options = _kind(field)
    form = _inherited_form(model, name, field, kind)
    key = _key(name, field)
    text = form.description or field.description
    try:
        return FormItem(
            name=key,
            type=kind,
            label=localize(form.label or field.title or humanize(key)),
            description=None if text is None else localize(text),
            required=field.is_required(),
            default=_default(subject, field),
            options=_build_options(options, form) if kind in ("select", "multi-select") else None,
            show_if=None if form.show_if is None else dict(form.show_if),
            locked=None if form.locked is None else localize(form.locked),
        )
    except ValidationError as error:
        hint = "see Form(...) for what a field can say"
        raise invalid_argument(subject, error, hint, inside=f"{model.__name__}.{name}.") from error


def _key(name: str, field: FieldInfo) -> str:
    alias = field.validation_alias
    return alias if isinstance(alias, str) else name


def _form(field: FieldInfo) -> Form:
    found = [item for item in field.metadata if isinstance(item, Form)]
    found += [item for item in _inner_metadata(field.annotation) if isinstance(item, Form)]
    merged = Form()
    for form in found:
        merged = Form(
            type=merged.type or form.type,
            label=merged.label or form.label,
            description=merged.description or form.description,
            show_if=merged.show_if or form.show_if,
            options=merged.options or form.options,
            locked=merged.locked or form.locked,
        )
    return merged


def _inherited_form(model: type[BaseModel], name: str, field: FieldInfo, kind: FormType) -> Form:
    """Return the form of a field, completed with the texts of the fields that it overrides.

    Options and conditions are inherited only by a field of the same type.
    """
    form = _form(field)
    for base in model.__mro__[1:]:
        above = base.model_fields.get(name) if issubclass(base, BaseModel) else None
        if above is None:
            continue
        inherited, same = _form(above), _kind(above)[0] == kind
        form = Form(
            type=form.type,
            label=form.label or inherited.label,
            description=form.description or inherited.description,
            show_if=form.show_if or (inherited.show_if if same else None),
            options=form.options or (inherited.options if same else None),
            locked=form.locked or (inherited.locked if same else None),
        )
    return form


def _inner_metadata(annotation: Any) -> Iterable[object]:
    """Yield the `Annotated` metadata inside an optional type such as `ModelSelector | None`."""
    for member in get_args(annotation) if _is_union(annotation) else ():
        if get_origin(member) is Annotated:
            yield from member.__metadata__


def _kind(field: FieldInfo) -> tuple[FormType, tuple[Any, ...]]:
    """The form type, and the values to choose from where there are any."""
    derived, options = _derive_type(_strip_annotation(field.annotation))
    return _form(field).type or derived, options


def _derive_type(annotation: Any) -> tuple[FormType, tuple[Any, ...]]:
    choices = _choices(annotation)
    if choices:
        return "select", choices
    scalar = _SCALARS.get(annotation) if isinstance(annotation, type) else None
    if scalar is not None:
        return scalar, ()
    if get_origin(annotation) in _COLLECTIONS or get_origin(annotation) is AbstractSet:
        members = [_strip_annotation(member) for member in get_args(annotation) if member is not Ellipsis]
        if members == [str]:
            return "array[string]", ()
        if len(members) == 1 and _choices(members[0]):
            return "multi-select", _choices(members[0])
    return "json", ()


def _choices(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return tuple(annotation)
    return ()


def _strip_annotation(annotation: Any) -> Any:
    """The type without `Annotated` and without `None`."""
    if get_origin(annotation) is Annotated:
        return _strip_annotation(get_args(annotation)[0])
    if _is_union(annotation):
        members = [member for member in get_args(annotation) if member is not types.NoneType]
        return _strip_annotation(members[0]) if len(members) == 1 else annotation
    return annotation


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, types.UnionType)


def _build_options(values: tuple[Any, ...], form: Form) -> tuple[FormOption, ...]:
    labels = dict(form.options or {})
    chosen = values or tuple(labels)
    return tuple(
        FormOption(
            value=cast("JsonValue", value.value if isinstance(value, enum.Enum) else value),
            label=localize(labels[value]) if value in labels else localize(_humanize_value(value)),
        )
        for value in chosen
    )


def _humanize_value(value: object) -> str:
    return humanize(value.name.lower()) if isinstance(value, enum.Enum) else str(value)


def _default(subject: str, field: FieldInfo) -> JsonValue:
    if (
        field.is_required() or _strip_annotation(field.annotation) is SecretStr
    ):  # a secret never becomes part of a manifest
        return None
    try:
        value = field.get_default(call_default_factory=True, validated_data={})
        return cast("JsonValue", to_jsonable_python(value))
    except (PydanticSerializationError, TypeError, KeyError) as error:
        hint = "use a JSON value, or a default_factory without arguments that makes one"
        inner: JsonObject = {"problem": str(error)}
        problem = f"its default is not JSON ({error})"
        raise DeclarationError(subject, problem, hint, "sdk.default", name=subject.split()[-1], inner=inner) from error
