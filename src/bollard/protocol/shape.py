"""The two kinds of shape, and the JSON scalars they are made of. No shape of its own.

`Strict` travels from runner to host: an unknown field is refused. `Tolerant` travels from host to runner, or both
ways: an unknown field is ignored, so that an old runner survives a newer host (protocol.md §1).

Both are frozen. A field that may be absent has the default `None` and is left out of the JSON when it is absent; a
required field whose value is JSON `null` stays.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Self, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)
from pydantic import Strict as _Exact

from bollard.protocol import limits

__all__ = [
    "Bytes64",
    "Digest",
    "Flag",
    "Int",
    "JsonObject",
    "JsonValue",
    "Localized",
    "Number",
    "Shape",
    "Strict",
    "Timestamp",
    "Tolerant",
    "first_problem",
]

# JSON knows its scalar types, so nothing is coerced: "1" is not 1, 1 is not true.
Int = Annotated[int, _Exact()]
Number = Annotated[float, _Exact()]
Flag = Annotated[bool, _Exact()]
JsonObject = dict[str, JsonValue]
"""A JSON object: text keys, and any JSON value."""

Timestamp = Annotated[Number, Field(ge=0, description="Epoch seconds, millisecond precision.")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256, lower-case hex.")]
Bytes64 = Annotated[
    str,
    Field(
        pattern=r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
        description="Standard base64 with padding.",
    ),
]
Localized = Annotated[
    dict[str, Annotated[str, Field(max_length=limits.TEXT_CHARACTERS)]],
    Field(description="Text by locale: en_US, zh_Hans, …"),
]


class Shape(BaseModel):
    """A frozen value of the protocol."""

    # JSON has no NaN and no Infinity, so no field takes one, however deep. A shape built without validation writes
    # such a number as it is, for the writer of the frame to refuse: never silently as null.
    model_config = ConfigDict(
        frozen=True, defer_build=True, protected_namespaces=(), allow_inf_nan=False, ser_json_inf_nan="constants"
    )

    @classmethod
    def from_wire(cls, value: JsonValue) -> Self:
        """Validate one decoded JSON value; raises `pydantic.ValidationError` with the field's path."""
        return cls.model_validate(value)

    def to_wire(self) -> JsonObject:
        """The JSON object this shape is on the wire, absent fields left out."""
        return self.model_dump(mode="json")

    @model_serializer(mode="wrap")
    def _leave_out_absent(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        body = cast("dict[str, Any]", handler(self))
        fields = type(self).model_fields
        absent = [
            name for name, value in body.items() if value is None and name in fields and not fields[name].is_required()
        ]
        for name in absent:
            del body[name]
        return body


class Strict(Shape):
    """From runner to host: an unknown field is refused."""

    model_config = ConfigDict(extra="forbid")


class Tolerant(Shape):
    """From host to runner, or both ways: an unknown field is ignored."""

    model_config = ConfigDict(extra="ignore")


def english(text: Mapping[str, str]) -> str:
    """The `en_US` text, or any text there is."""
    return text.get("en_US") or next(iter(text.values()), "")


_OF_THE_VALUE: Final = frozenset({"actual_length", "error", "tag"})
"""Parameters of a problem that describe the value."""


def problem_details(error: ValidationError) -> dict[str, str | int | float]:
    """The type of the first problem and its parameters, never the value. Translations of the problem are found by the
    type."""
    first = error.errors(include_url=False, include_input=False)[0]
    return {"problem_type": first["type"], **problem_parameters(first.get("ctx", {}))}


def problem_parameters(context: Mapping[str, object]) -> dict[str, str | int | float]:
    """The parameters of a problem of the validator that do not describe the value."""
    known = {name: value for name, value in context.items() if name not in _OF_THE_VALUE}
    scalars = {name: value for name, value in known.items() if isinstance(value, str | int | float)}
    if "expected" in scalars:  # the validator joins the choices in English
        scalars["expected"] = str(scalars["expected"]).replace(" or ", ", ")
    return scalars


def first_problem(error: ValidationError, *, whole: str = "(whole)") -> tuple[str, str]:
    """The path of the first field that does not fit, or `whole`, and what is wrong; never the value: maybe a secret."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return ".".join(str(part) for part in first["loc"]) or whole, first["msg"]
