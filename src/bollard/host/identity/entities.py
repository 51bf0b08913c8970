"""Users, keys, links of actors and workspaces: frozen values, read strictly from what a person saved or the store has.

No secret is in any of them: a password's hash is kept elsewhere, and of a key's token only its digest is here.
"""

from hashlib import sha256
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, Field, ValidationError

from bollard.host.agents.names import ActorRef, ChosenName, visible
from bollard.host.agents.saved_body import refusal
from bollard.host.identity.caller import RIGHTS, Right, Role
from bollard.protocol import Digest, Flag, Int, JsonObject, Strict

NAME_CHARACTERS: Final = 128
"""The name that people read, of a user, a key or a workspace."""

ShownName = Annotated[str, Field(min_length=1, max_length=NAME_CHARACTERS), AfterValidator(visible)]
S = TypeVar("S", bound=Strict)


class User(Strict):
    """A person of one workspace."""

    user_id: ChosenName
    name: ShownName | None = Field(default=None, description="As people read it.")
    role: Role
    disabled: Flag = Field(
        default=False, description="Nobody gets in as this user, and no key of theirs opens anything."
    )


class ApiKey(Strict):
    """A key of a program. Its token is shown once; only the digest is kept."""

    key_id: str = Field(pattern=r"^[0-9a-f]{16}$")
    name: ShownName
    rights: tuple[Right, ...] = Field(min_length=1, max_length=len(RIGHTS))
    sha256: Digest
    user_id: ChosenName | None = Field(default=None, description="Whose it is: it can do no more than they may.")
    made_by: str
    created_ms: Int = Field(ge=0)
    expires_ms: Int = Field(ge=0)


class ActorLink(Strict):
    """An actor of a channel that is a user of the workspace."""

    actor: ActorRef = Field(description="`type:id`, as the channel's events name it.")
    user_id: ChosenName


class Workspace(Strict):
    """What isolates every row. One that was deleted stays closed, and its id is not given again."""

    workspace_id: ChosenName
    name: ShownName | None = None
    closed: Flag = False


def read(shape: type[S], body: JsonObject, whole: str) -> S:
    """The body as this shape; raises `InvalidRequest` with the first field that does not fit."""
    try:
        return shape.from_wire(body)
    except ValidationError as error:
        raise refusal(error, whole) from error


def link_id(actor: str) -> str:
    """The id of a link: an actor's own id may hold anything, and a path may not."""
    return sha256(actor.encode("utf-8", "surrogatepass")).hexdigest()[:32]
