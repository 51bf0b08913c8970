"""The contract between host and runner: shapes, limits and errors. Depends on pydantic and nothing else.

`limits` is loaded with the package. The other names are those of `front_door`, which is loaded when the first of them
is used: a command that needs only a limit does not load two hundred shapes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bollard.protocol import limits as limits

if TYPE_CHECKING:
    from bollard.protocol.front_door import *  # noqa: F403 -- each module lists its own names
else:

    def __getattr__(name: str) -> Any:
        names = {key: value for key, value in vars(import_module(f"{__name__}.front_door")).items() if key[0] != "_"}
        globals().update(names, __all__=sorted(names))
        if name not in globals():
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals()[name]
