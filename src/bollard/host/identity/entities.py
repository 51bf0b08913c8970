"""Users, keys, links of actors and workspaces: frozen values with strict validation of saved and stored data.

None of them holds a secret: password hashes are stored elsewhere, and a key has only the digest of its token.
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
    name: ShownName | None = Field(default=None, description="The displayed name.")
    role: Role
    disabled: Flag = Field(default=False, description="The user cannot log in, and the user's keys are invalid.")


class ApiKey(Strict):
    """A key of a program. Its token is shown once; the host stores only the digest."""

    key_id: str = Field(pattern=r"^[0-9a-f]{16}$")
    name: ShownName
    rights: tuple[Right, ...] = Field(min_length=1, max_length=len(RIGHTS))
    sha256: Digest
    user_id: ChosenName | None = Field(default=None, description="The owner, whose rights limit the key.")
    made_by: str
    created_ms: Int = Field(ge=0)
    expires_ms: Int = Field(ge=0)


class ActorLink(Strict):
    """A link of an actor of a channel to a user of the workspace."""

    actor: ActorRef = Field(description="`type:id`, as the channel's events name it.")
    user_id: ChosenName


class Workspace(Strict):
    """A workspace, which isolates every row. A deleted workspace stays closed, and its id is not reused."""

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
    """The id of a link. An actor's own id may contain characters that are not allowed in a path."""
    return sha256(actor.encode("utf-8", "surrogatepass")).hexdigest()[:32]
