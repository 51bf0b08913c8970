"""The two kinds of identifier here: names that this host's people choose, and ids that come from elsewhere.

A chosen name is lower-case ASCII, so that no two of them look alike. A foreign id (a conversation, an actor, a model)
is opaque and compared by its bytes, so whatever is invisible or has two spellings is refused in it.
"""

import unicodedata
from collections.abc import Callable
from typing import Annotated, Final

from pydantic import AfterValidator, Field

ID_CHARACTERS: Final = 256
"""Length of one foreign id."""
ACTOR_ANY: Final = "*"
"""The id in `type:*`: every actor of that type."""
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode categories that do not show: controls, bidi and zero-width and tag characters, surrogates, line ends."""


Names = Callable[[str, str | None, str | None], frozenset[str]]
"""What rules may call an actor, by workspace, type and id of the actor."""
_ROLE: Final = "role"


def own_names(workspace: str, actor_type: str | None, actor_id: str | None) -> frozenset[str]:
    """`type:*` and `type:id`, as the actor calls itself. Nobody is on no list; a type with a colon in it could pass for
    another type's actor, and a role is given by the host alone."""
    del workspace
    if not actor_type or ":" in actor_type or actor_type == _ROLE:
        return frozenset()
    every = f"{actor_type}:{ACTOR_ANY}"
    return frozenset({every, f"{actor_type}:{actor_id}"}) if actor_id else frozenset({every})


def visible(value: str) -> str:
    """The id itself; `ValueError` when it has a character that does not show, or a second spelling."""
    for character in value:
        if unicodedata.category(character) in _INVISIBLE:
            raise ValueError(f"has the invisible character U+{ord(character):04X}")
    if not unicodedata.is_normalized("NFC", value):
        raise ValueError("is not in Unicode form NFC, so an equal looking id would not be equal")
    return value


def _typed(value: str) -> str:
    kind, colon, rest = value.partition(":")
    if not (kind and colon and rest):
        raise ValueError("is not of the form type:id, for example user:ada")
    return value


def _one(value: str) -> str:
    if value.partition(":")[2] == ACTOR_ANY:
        raise ValueError("names every actor of a type; name one, as type:id")
    return value


ChosenName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64)]
"""The id of an agent or a binding."""
ForeignId = Annotated[str, Field(min_length=1, max_length=ID_CHARACTERS), AfterValidator(visible)]
"""An id that somebody else gave."""
ActorPattern = Annotated[ForeignId, AfterValidator(_typed), Field(json_schema_extra={"pattern": "^[^:]+:"})]
"""`type:id`, or `type:*` for every actor of a type."""
ActorRef = Annotated[ActorPattern, AfterValidator(_one)]
"""`type:id`: one actor."""
