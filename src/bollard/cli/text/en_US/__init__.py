"""What the command line says in English."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bollard.cli.text.en_US.commands import COMMANDS
from bollard.cli.text.en_US.errors import ERRORS
from bollard.cli.text.en_US.help import HELP
from bollard.cli.text.en_US.rules import RULES

__all__ = ["TEXT"]

TEXT: Final[Mapping[str, str]] = MappingProxyType({**HELP, **ERRORS, **COMMANDS, **RULES})
