"""Capabilities of a few words."""

from typing import Any

import pytest

from bollard.host.capabilities.capability import Capability


def make(capability_id: str = "tool:builtin/now", **more: Any) -> Capability:
    """A capability with the name and the source of its id."""
    path = capability_id.partition(":")[2].split("/")
    kind = capability_id.partition(":")[0]
    source = {"mcp": f"mcp:{path[0]}", "tool": path[0] if len(path) == 2 else f"plugin:{'/'.join(path[:-1])}"}
    fields: dict[str, Any] = {
        "id": capability_id,
        "name": path[-1],
        "kind": kind,
        "description": f"Does {path[-1]}.",
        "input_schema": {"type": "object", "properties": {"of": {"type": "string"}}},
        "source": source.get(kind, "workspace"),
        **more,
    }
    return Capability(**fields)


@pytest.fixture(scope="session")
def capability() -> Any:
    return make
