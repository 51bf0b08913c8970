"""FormItem: one field of an agent's runner configuration, as the console draws it (§2)."""

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from bollard.protocol import limits
from bollard.protocol.shape import Flag, JsonObject, JsonValue, Localized, Strict

__all__ = [
    "DISPLAY_PLACEHOLDERS",
    "LEGACY_FORM_TYPES",
    "NOTHING_SELECTED",
    "SELECTOR_TYPES",
    "FormItem",
    "FormOption",
    "FormType",
]

FormType = Literal[
    "string",
    "text",
    "secret",
    "integer",
    "float",
    "boolean",
    "select",
    "multi-select",
    "array[string]",
    "json",
    "file",
    "array[file]",
    "prompt-editor",
    "llm-model-selector",
    "model-fallback-selector",
    "rerank-model-selector",
    "embedding-model-selector",
    "knowledge-base-multi-selector",
    "tool-multi-selector",
    "outpost-selector",
    "display",
]

_LegacyFormType = Literal["select-llm-model", "select-knowledge-bases"]

LEGACY_FORM_TYPES: Final[Mapping[str, FormType]] = MappingProxyType(
    {"select-llm-model": "llm-model-selector", "select-knowledge-bases": "knowledge-base-multi-selector"}
)
"""Old names, accepted on read and never written."""

SELECTOR_TYPES: Final = frozenset(
    {
        "file",
        "array[file]",
        "llm-model-selector",
        "model-fallback-selector",
        "rerank-model-selector",
        "embedding-model-selector",
        "knowledge-base-multi-selector",
        "tool-multi-selector",
        "outpost-selector",
    }
)
"""The types whose values tell the host which resources the configuration asks for (§3)."""

NOTHING_SELECTED: Final = ("", "__none__")

DISPLAY_PLACEHOLDERS: Final = ("host_url", "runner_id", "workspace")
"""The names that the host replaces in the text of a `display` row of a runner's form, each written as `{name}`."""


_PLACEHOLDER: Final = re.compile(r"\{([a-z_]+)\}")


def _current_name(value: object) -> object:
    return LEGACY_FORM_TYPES.get(value, value) if isinstance(value, str) else value


class FormOption(Strict):
    """One choice of a `select` or `multi-select`."""

    value: JsonValue
    label: Localized | None = None


class FormItem(Strict):
    """One field of a configuration form."""

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$", max_length=limits.NAME_CHARACTERS)
    type: Annotated[FormType, BeforeValidator(_current_name, json_schema_input_type=FormType | _LegacyFormType)]
    label: Localized
    description: Localized | None = None
    required: Flag = False
    default: JsonValue = None
    options: tuple[FormOption, ...] | None = None
    show_if: JsonObject | None = Field(
        default=None, description="Shown only while each named field has the given value, or one of a given list."
    )
    locked: Localized | None = Field(
        default=None, description="Why nobody can change the value, which is the default. Text by locale."
    )

    @model_validator(mode="after")
    def _display_has_a_text(self) -> Self:
        if self.type != "display":
            return self
        if not isinstance(self.default, str) or not self.default.strip():
            raise PydanticCustomError("display_text", "needs the text to display as its default")
        if self.required or self.options is not None:
            raise PydanticCustomError("display_input", "is display only, so it is not required and has no options")
        return self

    @model_validator(mode="after")
    def _lock_has_a_value(self) -> Self:
        if self.locked is None:
            return self
        if self.type in SELECTOR_TYPES or self.type in ("secret", "display"):
            # A selector gives an agent access to a resource, which people choose and no plugin.
            raise PydanticCustomError("lock_type", "cannot be locked: its type is {type}", {"type": self.type})
        if self.default is None:
            raise PydanticCustomError("lock_value", "needs a default, because it is locked")
        return self


def same_json(one: JsonValue, other: JsonValue) -> bool:
    """Whether two JSON values are the same."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other  # JSON: 1 is not true


def default_config(form: Sequence[FormItem]) -> JsonObject:
    """The defaults of the form: the configuration of an agent in which nothing is filled in."""
    shown = visible_fields(form, {})
    return {
        item.name: item.default
        for item in form
        if item.default is not None and item.type != "display" and shown(item.name)
    }


def with_locked_values(config: JsonObject, form: Sequence[FormItem]) -> JsonObject:
    """The configuration with the values of the visible locked fields."""
    shown = visible_fields(form, config)
    return {**config, **{item.name: item.default for item in form if item.locked is not None and shown(item.name)}}


def with_display_texts(form: Sequence[FormItem], values: Mapping[str, str]) -> tuple[FormItem, ...]:
    """The form with the values of placeholders in its `display` rows. An unknown placeholder stays as it is."""
    return tuple(
        item.model_copy(
            update={"default": _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), item.default)}
        )
        if item.type == "display" and isinstance(item.default, str)
        else item
        for item in form
    )


def unknown_placeholders(item: FormItem) -> list[str]:
    """The names in braces in a `display` row that the host does not replace."""
    names = _PLACEHOLDER.findall(item.default) if item.type == "display" and isinstance(item.default, str) else []
    return [name for name in names if name not in DISPLAY_PLACEHOLDERS]


def prompts_in(form: Sequence[FormItem], config: JsonObject) -> dict[str, str]:
    """The texts of the prompts of a configuration by field, in the order of the form."""
    texts = {item.name: config.get(item.name) for item in form if item.type == "prompt-editor"}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def visible_fields(form: Sequence[FormItem], filled: JsonObject) -> Callable[[str], bool]:
    """A function that says whether a field is visible in a form that is filled in like this."""
    return _VisibleFields(form, filled)


class _VisibleFields:
    """Which fields are visible. A field that depends on a hidden field is hidden. In a cycle only the values decide."""

    def __init__(self, form: Sequence[FormItem], filled: JsonObject) -> None:
        self._items = {item.name: item for item in form}
        self._filled = filled
        self._known: dict[str, bool] = {}

    def __call__(self, name: str) -> bool:
        if name not in self._known:
            self._known[name] = True  # ends a cycle
            item = self._items.get(name)
            wanted = (item.show_if or {}) if item is not None else {}
            self._known[name] = all(self(other) and self._has(other, value) for other, value in wanted.items())
        return self._known[name]

    def _has(self, name: str, wanted: JsonValue) -> bool:
        value, item = self._filled.get(name), self._items.get(name)
        if item is not None and (value is None or item.locked is not None):
            value = item.default
        return same_json(value, wanted) or (isinstance(wanted, list) and any(same_json(value, one) for one in wanted))
