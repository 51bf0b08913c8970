"""What the command line says in Chinese."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bollard.cli.text.zh_Hans.commands import COMMANDS
from bollard.cli.text.zh_Hans.errors import ERRORS
from bollard.cli.text.zh_Hans.help import HELP
from bollard.cli.text.zh_Hans.rules import RULES

__all__ = ["TEXT"]

TEXT: Final[Mapping[str, str]] = MappingProxyType({**HELP, **ERRORS, **COMMANDS, **RULES})
