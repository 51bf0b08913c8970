"""One name for where a message stands: workspace, bot, conversation and thread in a digest. Pure.

Absent parts are parts too: a thread's messages are not the conversation's own. Equality of one column is what every
read of the transcript is scoped by.
"""

import hashlib
from typing import Final

import msgspec

__all__ = ["place_of"]

_encode: Final = msgspec.json.Encoder().encode
_CHARACTERS: Final = 32


def place_of(workspace: str, bot: str | None, conversation: str | None, thread: str | None) -> str:
    return hashlib.sha256(_encode((workspace, bot, conversation, thread))).hexdigest()[:_CHARACTERS]
