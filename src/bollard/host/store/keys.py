"""Keys of state, storage areas and conversations, within the limits of both databases. Pure."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import msgspec

from bollard.host.limits import KEY_BYTES
from bollard.trust import canonical_sha256

if TYPE_CHECKING:
    from bollard.protocol import JsonValue, StorageArea


def key_problem(key: str) -> str | None:
    """The problem with a key, if any: PostgreSQL text cannot hold U+0000, and its indices limit the length."""
    if "\0" in key:
        return "contains the character U+0000"
    if len(key.encode("utf-8", "replace")) > KEY_BYTES:
        return f"is longer than {KEY_BYTES} bytes in UTF-8"
    return None


def area_key(workspace: str, area: StorageArea, runner_id: str) -> str:
    """The digest of a storage area. `plugin` is per workspace and plugin, shared by its runners; `workspace` is shared
    by the workspace."""
    parts: dict[str, JsonValue] = {"area": area, "workspace": workspace}
    if area == "plugin":
        parts["plugin"] = _plugin_of(runner_id)
    return canonical_sha256(parts)


def _plugin_of(runner_id: str) -> str:
    """`author/name` of `plugin:author/name/runner`."""
    plugin, _, _ = runner_id.removeprefix("plugin:").rpartition("/")
    return plugin


_encode: Final = msgspec.json.Encoder().encode
_CHARACTERS: Final = 32


def place_of(workspace: str, bot: str | None, conversation: str | None, thread: str | None) -> str:
    """The digest of a conversation or thread, by which the transcript is read. A thread is not part of its
    conversation: absent parts count too."""
    return hashlib.sha256(_encode((workspace, bot, conversation, thread))).hexdigest()[:_CHARACTERS]
