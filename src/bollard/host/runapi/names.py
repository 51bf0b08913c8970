"""Names that runners give to things: what no store could keep as it is, is refused the same way over every store."""

from typing import Final

from bollard.host.runapi.refusal import ApiRefused
from bollard.host.store.keys import key_problem

__all__ = ["check_key", "check_name"]

NAME_CHARACTERS: Final = 255
"""The name of an artifact; as long as file names are."""
_LAST_CONTROL: Final = 0x1F
_DELETE: Final = 0x7F


def check_key(key: str) -> None:
    """A key of state or storage. Raises `ApiRefused`."""
    if (problem := key_problem(key)) is not None:
        raise ApiRefused("invalid_argument", f"key: {problem}", details={"field": "key"})


def check_name(field: str, text: str) -> None:
    """A name that people will see, in one line. Raises `ApiRefused`."""
    if not text.strip() or len(text) > NAME_CHARACTERS:
        problem = f"is empty or longer than {NAME_CHARACTERS} characters"
    elif any(ord(character) <= _LAST_CONTROL or ord(character) == _DELETE for character in text):
        problem = "holds a control character"
    else:
        return
    raise ApiRefused("invalid_argument", f"{field}: {problem}", details={"field": field})
