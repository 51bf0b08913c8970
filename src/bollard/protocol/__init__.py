"""The contract between host and runner: every shape, limit and error, and nothing else.

Stands on pydantic alone. `limits` holds every limit by name; the rest is the list of `front_door`. That is loaded with
the first name that is asked for: a command that only needs a limit should not wait for two hundred shapes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bollard.protocol import limits as limits

if TYPE_CHECKING:
    from bollard.protocol.front_door import *  # noqa: F403 -- its `__all__` is the list
else:

    def __getattr__(name: str) -> Any:
        front_door = import_module("bollard.protocol.front_door")
        if name != "__all__" and name not in front_door.__all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(front_door, name)
        return found
