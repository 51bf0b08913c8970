"""Keys of state and storage, and names in events: what every store can keep and find as it is. Pure."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from bollard.host.limits import KEY_BYTES
from bollard.trust import canonical_sha256

if TYPE_CHECKING:
    from bollard.protocol import JsonValue, StorageArea


def key_problem(key: str) -> str | None:
    """What is wrong with a key, if anything is: PostgreSQL's text has no U+0000, and its indices no long keys."""
    if "\0" in key:
        return "holds the character U+0000"
    if len(key.encode("utf-8", "replace")) > KEY_BYTES:
        return f"is longer than {KEY_BYTES} bytes in UTF-8"
    return None


# Whose stored values they are: the digest that a storage area is kept under. Pure.


def area_key(workspace: str, area: StorageArea, runner_id: str) -> str:
    """`plugin` is per workspace and plugin, whichever of its runners asks; `workspace` is shared in the workspace."""
    parts: dict[str, JsonValue] = {"area": area, "workspace": workspace}
    if area == "plugin":
        parts["plugin"] = _plugin_of(runner_id)
    return canonical_sha256(parts)


def _plugin_of(runner_id: str) -> str:
    """`author/name` of `plugin:author/name/runner`."""
    plugin, _, _ = runner_id.removeprefix("plugin:").rpartition("/")
    return plugin


# One name for where a message stands: workspace, bot, conversation and thread in a digest. Pure.
#
# Absent parts are parts too: a thread's messages are not the conversation's own. Equality of one column is what every
# read of the transcript is scoped by.


_encode: Final = msgspec.json.Encoder().encode
_CHARACTERS: Final = 32


def place_of(workspace: str, bot: str | None, conversation: str | None, thread: str | None) -> str:
    return hashlib.sha256(_encode((workspace, bot, conversation, thread))).hexdigest()[:_CHARACTERS]
