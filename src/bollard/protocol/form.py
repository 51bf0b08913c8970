"""FormItem: one field of an agent's runner configuration, as the console draws it (§2)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from bollard.protocol import limits
from bollard.protocol.shape import Flag, JsonObject, JsonValue, Localized, Strict

__all__ = ["LEGACY_FORM_TYPES", "NOTHING_SELECTED", "SELECTOR_TYPES", "FormItem", "FormOption", "FormType"]

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
