"""Turns a validation error of a body into an error of the host: the field and the problem, never the value."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pydantic import ValidationError

from bollard.host.errors import InvalidRequest

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


def refusal(error: ValidationError, whole: str) -> InvalidRequest:
    """The first problem of a body. `whole` is the name of the resource."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    parts = [str(part) for part in first["loc"] if part != _KEY]
    where = ".".join([whole, *parts]) if whole else ".".join(parts)
    problem = _MESSAGES.get(first["type"], first["msg"].removeprefix("Value error, "))
    message, hint = f"{where or 'the body'}: {problem}", "correct this field and save again"
    return InvalidRequest(message, reason="invalid_field", hint=hint, field=where, problem=problem)
