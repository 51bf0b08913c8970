"""The two kinds of identifiers: names that people choose on this host, and foreign ids.

A chosen name is lower-case ASCII, so that no two look alike. A foreign id (a conversation, an actor, a model) is opaque
and compared by its bytes, so invisible characters and ambiguous spellings are refused.
"""

import unicodedata
from collections.abc import Callable
from typing import Annotated, Final

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from bollard.host.scope import Actor

ID_CHARACTERS: Final = 256
"""The longest foreign id."""
ACTOR_ANY: Final = "*"
"""The id in `type:*`: every actor of that type."""
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Invisible Unicode categories: control, bidi, zero-width and tag characters, surrogates, line ends."""


Names = Callable[[str, Actor | None], frozenset[str]]
"""Returns the names that rules may use for an actor of a workspace."""
_ROLE: Final = "role"


def own_names(workspace: str, actor: Actor | None) -> frozenset[str]:
    """`type:*` and `type:id`. A type with a colon could imitate another type, and only the host assigns roles, so both
    have no names."""
    del workspace
    if actor is None or not actor.type or ":" in actor.type or actor.type == _ROLE:
        return frozenset()
    every = f"{actor.type}:{ACTOR_ANY}"
    return frozenset({every, f"{actor.type}:{actor.id}"}) if actor.id else frozenset({every})


def visible(value: str) -> str:
    """The id itself. Raises `ValueError` for invisible characters and ambiguous spellings."""
    for character in value:
        if unicodedata.category(character) in _INVISIBLE:
            shown = {"character": f"U+{ord(character):04X}"}
            raise PydanticCustomError("invisible_character", "has the invisible character {character}", shown)
    if not unicodedata.is_normalized("NFC", value):
        raise PydanticCustomError("not_nfc", "is not in Unicode form NFC, so an equal looking id would not be equal")
    return value


def _typed(value: str) -> str:
    kind, colon, rest = value.partition(":")
    if not (kind and colon and rest):
        raise PydanticCustomError("not_an_actor", "is not of the form type:id, for example user:ada")
    return value


def _one(value: str) -> str:
    if value.partition(":")[2] == ACTOR_ANY:
        raise PydanticCustomError("every_actor", "names every actor of a type; name one, as type:id")
    return value


ChosenName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64)]
"""The id of an agent or a binding."""
ForeignId = Annotated[str, Field(min_length=1, max_length=ID_CHARACTERS), AfterValidator(visible)]
"""An id of another system."""
ActorPattern = Annotated[ForeignId, AfterValidator(_typed), Field(json_schema_extra={"pattern": "^[^:]+:"})]
"""`type:id`, or `type:*` for every actor of a type."""
ActorRef = Annotated[ActorPattern, AfterValidator(_one)]
"""`type:id`: one actor."""
