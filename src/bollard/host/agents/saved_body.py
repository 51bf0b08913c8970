"""The body of a saved resource: one model reads requests and the log, and writes the log and the answers."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final, Self

from pydantic import Field, ValidationError

from bollard.host.errors import InvalidRequest
from bollard.protocol import Int, JsonObject, Strict
from bollard.protocol.shape import problem_details

_MESSAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "extra_forbidden": "there is no such field",
        "unexpected_keyword_argument": "there is no such field",
        "missing": "this field is needed",
        "dataclass_type": "should be an object",
        "model_type": "should be an object",
    }
)
"""Replacements for messages of the validator that describe the program instead of the body."""
_KEY: Final = "[key]"
"""The suffix that the validator appends to the path of an invalid object key."""


class SavedBody(Strict):
    """The model of one kind of saved resource. Checks between fields are validators that raise `InvalidRequest`."""

    noun: ClassVar[str]
    """The name of the resource in the path of a wrong field, such as `channel` in `channel.url`."""
    revision: Int | None = Field(default=None, ge=0, exclude=True, description="The revision that was edited.")

    @classmethod
    def read(cls, body: JsonObject) -> Self:
        """The resource of a body, without the revision. Raises `InvalidRequest` for the first wrong field."""
        try:
            resource = cls.from_wire(body)
        except ValidationError as error:
            raise refusal(error, cls.noun) from error
        return resource if resource.revision is None else resource.model_copy(update={"revision": None})

    @classmethod
    def invalid(cls, reason: str, field: str, problem: str, hint: str, /, **details: str | int) -> InvalidRequest:
        """The error of a field whose value does not fit the rest of the body."""
        field = f"{cls.noun}.{field}"
        return InvalidRequest(f"{field}: {problem}", reason=reason, hint=hint, field=field, **details)


_SAVE_AGAIN: Final = "correct this field and save again"


def refusal(
    error: ValidationError, whole: str, *, reason: str = "invalid_field", hint: str = _SAVE_AGAIN
) -> InvalidRequest:
    """The error of the first wrong field: its path and the problem, never the value. `whole` names the resource."""
    first = error.errors(include_url=False, include_input=False)[0]
    parts = [str(part) for part in first["loc"] if part != _KEY]
    where = ".".join([whole, *parts]) if whole else ".".join(parts)
    problem = _MESSAGES.get(first["type"], first["msg"])
    message, field = f"{where or 'the body'}: {problem}", where or "(whole)"
    return InvalidRequest(message, reason=reason, hint=hint, field=field, problem=problem, **problem_details(error))
