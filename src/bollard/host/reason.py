"""The reason why a capability is not available: a sentence, with the details by which a translation of it is found."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from bollard.host.errors import caused_by
from bollard.protocol import JsonValue


class Why(msgspec.Struct, frozen=True):
    """`details` holds the type of the problem (`problem_type`) and its values. It is empty for a sentence that is not
    ours. Grants keep the sentence alone."""

    sentence: str
    details: Mapping[str, Any] = {}

    def __bool__(self) -> bool:
        return bool(self.sentence)

    def __str__(self) -> str:
        return self.sentence

    @property
    def whole(self) -> Mapping[str, Any]:
        """The details of an error that this reason causes, as `caused_by` gives them."""
        return {"problem": self.sentence, **self.details}

    def without_secrets(self, hide: Callable[[str], str]) -> "Why":
        """The reason after `hide` removed the secrets from its texts."""
        return Why(hide(self.sentence), {name: _hidden(value, hide) for name, value in self.details.items()})


def why(sentence: str, problem_type: str, /, **values: Any) -> Why:
    """A reason with a sentence of ours."""
    return Why(sentence, {"problem_type": problem_type, **values})


def why_error(error: Exception) -> Why:
    """The reason that an error gives. Its details are those of `caused_by`."""
    return Why(str(error), {name: value for name, value in caused_by(error).items() if name != "problem"})


def _hidden(value: JsonValue, hide: Callable[[str], str]) -> JsonValue:
    if isinstance(value, dict):
        return {name: _hidden(each, hide) for name, each in value.items()}
    if isinstance(value, list):
        return [_hidden(each, hide) for each in value]
    return hide(value) if isinstance(value, str) else value


NO_PROBLEM: Final = Why("")
