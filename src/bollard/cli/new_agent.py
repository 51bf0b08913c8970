"""The document of a new agent: all that its runner asks for is spelled out, so that whoever saves it has read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bollard.protocol import JsonObject


__all__ = ["new_agent", "runner_meant"]


def runner_meant(offered: Sequence[Mapping[str, Any]], named: str) -> Mapping[str, Any] | None:
    """The runner of that id, or the one whose own agent has that id."""
    return next((item for item in offered if named in (item["runner_id"], _own_agent(item))), None)


def _own_agent(item: Mapping[str, Any]) -> str:
    _, name, runner = item["runner_id"].split("/")
    return name if runner == "default" else f"{name}.{runner}"


def new_agent(agent_id: str, runner: Mapping[str, Any]) -> JsonObject:
    """What `bollard agents save` takes: the manifest's permissions, and the form with its defaults."""
    asked: Mapping[str, list[str]] = runner["permissions"]
    form: Sequence[Mapping[str, Any]] = runner["config_schema"]
    return {
        "agent_id": agent_id,
        "runner_id": runner["runner_id"],
        "label": runner["label"],
        "config": {item["name"]: item["default"] for item in form if item.get("default") is not None},
        "policy": {
            "access": {"permissions": {family: [*names] for family, names in asked.items() if names}},
            "concurrency": {"mode": "steer" if runner["capabilities"].get("steering") else "queue"},
        },
    }
