"""A body that does not fit, as the host's own error: which field, and what is wrong with it. Never the value."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pydantic import ValidationError

from bollard.host.errors import InvalidRequest

_SAID: Final[Mapping[str, str]] = MappingProxyType(
    {
        "extra_forbidden": "there is no such field",
        "unexpected_keyword_argument": "there is no such field",
        "missing": "this field is needed",
        "dataclass_type": "should be an object",
        "model_type": "should be an object",
    }
)
"""Where the validator's words speak of the program and not of the body."""
_KEY: Final = "[key]"
"""What the validator appends to the path of an object key that does not fit."""


def refusal(error: ValidationError, whole: str) -> InvalidRequest:
    """The first problem of a body; `whole` is the name of the thing that the body describes."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    parts = [str(part) for part in first["loc"] if part != _KEY]
    where = ".".join([whole, *parts]) if whole else ".".join(parts)
    said = _SAID.get(first["type"], first["msg"].removeprefix("Value error, "))
    return InvalidRequest(f"{where or 'the body'}: {said}", hint="correct this field and save again", field=where)
