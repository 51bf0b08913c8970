"""Whose stored values they are: the digest that a storage area is kept under. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bollard.trust import canonical_sha256

if TYPE_CHECKING:
    from bollard.protocol import JsonValue, StorageArea

__all__ = ["area_key"]


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
