"""The English catalogue of the command line."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bollard.cli.text.en_US.agents import APPROVALS, CAPABILITIES, FILES, KNOWLEDGE, MODELS, SKILLS
from bollard.cli.text.en_US.commands import COMMANDS
from bollard.cli.text.en_US.errors import ERRORS
from bollard.cli.text.en_US.help import HELP
from bollard.cli.text.en_US.host import ADVICE, CODES, HOST, REASONS
from bollard.cli.text.en_US.identity import IDENTITY, SECRETS
from bollard.cli.text.en_US.mcp import MCP
from bollard.cli.text.en_US.operate import AUDIT, OPERATING, UPKEEP
from bollard.cli.text.en_US.plugins import PLUGINS, RULES, RUNTIMES
from bollard.cli.text.en_US.runs import READING, STATE

__all__ = ["ADVICE", "CODES", "HOST", "REASONS", "TEXT"]

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
