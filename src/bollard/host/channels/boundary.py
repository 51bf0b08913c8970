"""What a channel can do, what it is given to send, and what became of that.

A channel sends; it keeps nothing, decides no order and tries nothing twice. All of that is the outbox's.
"""

from typing import Literal, Protocol

import msgspec

__all__ = ["Abilities", "Channel", "Delivered", "Failed", "Outgoing", "SendOutcome", "Unknown"]


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a channel promises of itself. The least, unless it says more."""

    dedupe: Literal["native", "none"] = "none"
    """`native`: the same key again is the same message, so that what is in doubt may be sent again. `none`: it may not,
    and stays unknown."""
    supports_streaming: bool = False
    """Whether a message may be shown while it is written; needs `supports_edit`."""
    supports_edit: bool = False
    supports_reaction: bool = False
    max_message_size: int | None = None
    """Characters of one message."""
    edits_per_s: float = 1.0
    """Edits that one message may have in a second."""


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """One message, or one part of a long one, or a new text for one that is there."""

    key: str
    """The same for every try."""
    target: str
    text: str
    run_id: str
    event_id: str
    part: int = 0
    parts: int = 1
    edit_of: str | None = None
    """The channel's own id of the message that gets this text."""
    final: bool = True
    """Whether the text is whole; if not, it will be edited."""
    failed: str | None = None
    """Why the run ended without a further word, as a failure code. Then there is no text: the channel has its own."""
    artifacts: tuple[str, ...] = ()
    """Ids of artifacts that belong to the message; they come with its last part."""


class Delivered(msgspec.Struct, frozen=True):
    """It is there. `message` is the channel's own id of it, where it has one."""

    message: str | None = None


class Failed(msgspec.Struct, frozen=True):
    """It is not there, and the channel knows."""

    reason: str
    retryable: bool
    retry_after_s: float | None = None


class Unknown(msgspec.Struct, frozen=True):
    """It left, and no answer came: it may be there or not."""

    reason: str


SendOutcome = Delivered | Failed | Unknown


class Channel(Protocol):
    """One place to send to."""

    @property
    def abilities(self) -> Abilities: ...

    async def send(self, outgoing: Outgoing) -> SendOutcome:
        """Try once. What goes wrong is an outcome, never an exception."""
        ...

    async def close(self) -> None: ...
