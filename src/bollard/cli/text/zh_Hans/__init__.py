"""What the command line says in Chinese."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bollard.cli.text.zh_Hans.approvals import APPROVALS
from bollard.cli.text.zh_Hans.audit import AUDIT
from bollard.cli.text.zh_Hans.capabilities import CAPABILITIES
from bollard.cli.text.zh_Hans.commands import COMMANDS
from bollard.cli.text.zh_Hans.errors import ERRORS
from bollard.cli.text.zh_Hans.files import FILES
from bollard.cli.text.zh_Hans.help import HELP
from bollard.cli.text.zh_Hans.host import ADVICE, CODES, HOST
from bollard.cli.text.zh_Hans.identity import IDENTITY
from bollard.cli.text.zh_Hans.knowledge import KNOWLEDGE
from bollard.cli.text.zh_Hans.mcp import MCP
from bollard.cli.text.zh_Hans.models import MODELS
from bollard.cli.text.zh_Hans.operating import OPERATING
from bollard.cli.text.zh_Hans.plugins import PLUGINS
from bollard.cli.text.zh_Hans.reading import READING
from bollard.cli.text.zh_Hans.rules import RULES
from bollard.cli.text.zh_Hans.runtimes import RUNTIMES
from bollard.cli.text.zh_Hans.secrets import SECRETS
from bollard.cli.text.zh_Hans.skills import SKILLS
from bollard.cli.text.zh_Hans.state import STATE
from bollard.cli.text.zh_Hans.upkeep import UPKEEP

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
