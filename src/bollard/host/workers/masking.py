"""Takes out of what workers say what must not be shown: values that they were given, the secrets of their workspace,
and what a terminal would obey.

A plugin that prints its key shows it to nobody, whether in its log, in the host's, or in why it could not start.
"""

import re
from collections.abc import Iterable
from typing import Final

from bollard.host.secrets.redactor import Scrubber
from bollard.protocol import JsonValue

__all__ = ["Mask"]

_ESCAPES: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?")
_HIDDEN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


class Mask:
    """Grows, and forgets nothing: what was a secret once stays one."""

    def __init__(self, secrets: Scrubber | None = None) -> None:
        """`secrets` are those of the workspace."""
        self._given = Scrubber()
        self._secrets = secrets or Scrubber()

    def hide(self, values: Iterable[str]) -> None:
        """Values that must not be shown."""
        self._given.add(values)

    def text(self, text: str) -> str:
        """What a terminal would obey goes first: a secret that it cut in two is whole again then."""
        return self._secrets.text(self._given.text(_HIDDEN.sub("\ufffd", _ESCAPES.sub("", text))))

    def value(self, value: JsonValue) -> JsonValue:
        """Every text in it."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, dict):
            return {self.text(name): self.value(each) for name, each in value.items()}
        return value
