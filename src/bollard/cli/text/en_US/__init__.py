"""What the command line says in English."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bollard.cli.text.en_US.approvals import APPROVALS
from bollard.cli.text.en_US.audit import AUDIT
from bollard.cli.text.en_US.capabilities import CAPABILITIES
from bollard.cli.text.en_US.commands import COMMANDS
from bollard.cli.text.en_US.errors import ERRORS
from bollard.cli.text.en_US.files import FILES
from bollard.cli.text.en_US.help import HELP
from bollard.cli.text.en_US.host import ADVICE, CODES, HOST
from bollard.cli.text.en_US.identity import IDENTITY
from bollard.cli.text.en_US.knowledge import KNOWLEDGE
from bollard.cli.text.en_US.mcp import MCP
from bollard.cli.text.en_US.models import MODELS
from bollard.cli.text.en_US.operating import OPERATING
from bollard.cli.text.en_US.plugins import PLUGINS
from bollard.cli.text.en_US.reading import READING
from bollard.cli.text.en_US.rules import RULES
from bollard.cli.text.en_US.runtimes import RUNTIMES
from bollard.cli.text.en_US.secrets import SECRETS
from bollard.cli.text.en_US.skills import SKILLS
from bollard.cli.text.en_US.state import STATE
from bollard.cli.text.en_US.upkeep import UPKEEP

__all__ = ["ADVICE", "CODES", "HOST", "TEXT"]

TEXT: Final[Mapping[str, str]] = MappingProxyType(
    {
        **HELP,
        **ERRORS,
        **COMMANDS,
        **APPROVALS,
        **AUDIT,
        **CAPABILITIES,
        **FILES,
        **IDENTITY,
        **KNOWLEDGE,
        **MCP,
        **MODELS,
        **OPERATING,
        **PLUGINS,
        **READING,
        **RULES,
        **RUNTIMES,
        **SECRETS,
        **SKILLS,
        **STATE,
        **UPKEEP,
    }
)
