"""Events for tests, with the fields of their scope beside the others."""

from typing import Any

from bollard.host.runs.event import NewEvent
from bollard.host.scope import Scope


def new_event(*, workspace: str = "default", **fields: Any) -> NewEvent:
    scope = {name: fields.pop(name) for name in Scope.__struct_fields__ if name in fields}
    return NewEvent(scope=Scope(workspace=workspace, **scope), **fields)
