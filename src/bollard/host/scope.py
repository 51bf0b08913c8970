"""The scope of an event and of its run: workspace, bot, conversation, thread, actor and subject."""

from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:  # the journal process loads this module, and no shapes of the protocol
    from bollard.protocol import StateScope


class Actor(msgspec.Struct, frozen=True):
    """The person or program that causes an event. Without an id it is an unknown one of its type."""

    type: str
    id: str | None = None


class Place(Protocol):
    """A value with a workspace, bot, conversation and thread: a scope or a row."""

    @property
    def workspace(self) -> str: ...
    @property
    def bot(self) -> str | None: ...
    @property
    def conversation(self) -> str | None: ...
    @property
    def thread(self) -> str | None: ...


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """A place, its actor and its subject. Grants store it, so its fields are in the order of canonical JSON."""

    actor_id: str | None = None
    actor_type: str | None = None
    bot: str | None = None
    conversation: str | None = None
    subject_id: str | None = None
    subject_type: str | None = None
    thread: str | None = None
    workspace: str

    @property
    def actor(self) -> Actor | None:
        return None if self.actor_type is None else Actor(self.actor_type, self.actor_id)

    @classmethod
    def of(cls, place: Place, actor: Actor | None) -> "Scope":
        """The scope of an actor in a place."""
        return cls(
            workspace=place.workspace,
            bot=place.bot,
            conversation=place.conversation,
            thread=place.thread,
            actor_type=None if actor is None else actor.type,
            actor_id=None if actor is None else actor.id,
        )

    def has(self, scope: "StateScope") -> bool:
        """Whether state of this scope has an owner. A type without an id would be shared by all actors of the type."""
        if scope == "conversation":
            return bool(self.conversation)
        if scope == "actor":
            return bool(self.actor_type and self.actor_id)
        if scope == "subject":
            return bool(self.subject_type and self.subject_id)
        return True
