"""The public names of `bollard.protocol`: `limits`, and everything that a module lists in its `__all__`."""

# ruff: noqa: F403 -- each module lists its own names

from bollard.protocol import limits as limits
from bollard.protocol.api import *
from bollard.protocol.channel import *
from bollard.protocol.context import *
from bollard.protocol.errors import *
from bollard.protocol.form import *
from bollard.protocol.manifest import *
from bollard.protocol.message import *
from bollard.protocol.pages import *
from bollard.protocol.resources import *
from bollard.protocol.results import *
from bollard.protocol.sandbox import *
from bollard.protocol.shape import *
